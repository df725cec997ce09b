"""An event that kills its consumer every time is parked after a bounded number of deaths, and the rest goes on."""

import signal

import psycopg
import pytest

from tests.support import shop, streams


def test_an_event_that_kills_its_consumer_every_time_is_parked_and_the_rest_goes_on(
    database_url: str, kafka: str
) -> None:
    streams.install(database_url, shop.TABLES["billing"])
    topic, name = streams.create_topic(kafka), streams.name("billing")
    orders = [streams.order() for _ in range(8)]
    streams.publish(kafka, topic, [*orders[:4], streams.order(sku="kill"), *orders[4:]], partition=0)
    wanted = sorted(order.subject for order in orders)

    deaths = 0
    while deaths < 10:
        with shop.consumer_process("billing", name, database_url, kafka, topic, max_attempts=2) as consumer:
            streams.eventually(
                lambda: shop.applied("billing", database_url) == wanted or not consumer.is_running(), "done or dead"
            )
            if consumer.is_running():
                consumer.terminate()
                break
            consumer.ends_by(signal.SIGKILL)
            deaths += 1
    assert deaths == 3, "once with the others, then as often alone as an event is tried"
    assert shop.applied("billing", database_url) == wanted
    with psycopg.connect(database_url) as connection:
        letters = connection.execute("SELECT reason, attempts, error FROM dead_letters").fetchall()
    assert letters == [("handler-failed", 2, "every attempt failed or ended the process")]


@pytest.mark.parametrize("deaths", [3])
def test_an_innocent_event_is_not_blamed_for_a_few_deaths(database_url: str, kafka: str, deaths: int) -> None:
    """Killed in the same window again and again, fewer times than an event is tried."""
    streams.install(database_url, shop.TABLES["billing"])
    topic, name = streams.create_topic(kafka), streams.name("billing")
    order = streams.order()
    streams.publish(kafka, topic, [order])
    armed = f"{name}.consumer.before_commit=kill"
    for _ in range(deaths):
        with shop.consumer_process("billing", name, database_url, kafka, topic, failpoints=armed) as consumer:
            consumer.ends_by(signal.SIGKILL)
    with shop.consumer_process("billing", name, database_url, kafka, topic):
        streams.eventually(lambda: shop.applied("billing", database_url) == [order.subject], "applied")
    assert streams.scalar(database_url, "SELECT count(*) FROM dead_letters") == 0
