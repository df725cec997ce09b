"""A consumer as a process of its own: what every service's consumer.py has in common.

does    puts engine, handlers and dedupe window together, and runs the consumer until SIGTERM
reads   its settings
writes  nothing itself
next    messaging/consumer.py
"""

from collections.abc import Callable
from datetime import timedelta

from pydantic import Field

from shared.contracts import CONTRACTS
from shared.messaging import consumer as consumers
from shared.messaging import kafka, retention
from shared.messaging.consumer import ConsumerSettings, InboxConsumer
from shared.messaging.errors import RecordsExpired
from shared.messaging.handlers import Handlers
from shared.messaging.kafka import KafkaSettings
from shared.runtime import database, process
from shared.runtime.settings import ProcessSettings


class ConsumerProcessSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    kafka_bootstrap: str
    batch_size: int = Field(500, ge=1, le=10_000)
    inbox_retention_days: int = Field(14, ge=1, description="how long an event is remembered; housekeeping's setting")
    outbox_max_age_hours: int = Field(24, ge=1, description="how late an event may reach the topic at the most")


def run(consumer: str, settings: ConsumerProcessSettings, handlers: Handlers) -> None:
    """`consumer` names the group, the inbox rows and the failpoints."""
    engine = database.engine(settings.database_url, settings.process, options=consumers.SESSION)
    ready = [database.answers(engine), retention.ahead(engine, "inbox")]
    running = process.begin(settings, ready=ready)
    wanted = ConsumerSettings(consumer, tuple(handlers), settings.kafka_bootstrap, batch_size=settings.batch_size)
    try:
        with InboxConsumer(wanted, engine, handlers, CONTRACTS, _window(settings, wanted.topics)) as inbox_consumer:
            ready.append(inbox_consumer.ready)
            running.run_forever(inbox_consumer.step, idle_s=0)
    except RecordsExpired as error:
        # Only a person can help. A process that came and went would hide the alarm from whoever asks now and then.
        problem = str(error)
        ready.append(lambda: problem)
        running.run_forever(lambda: 0)


def _window(settings: ConsumerProcessSettings, topics: tuple[str, ...]) -> Callable[[], str | None]:
    admin = kafka.admin(KafkaSettings(settings.kafka_bootstrap, client_id=settings.process))

    def problem() -> str | None:
        found = (
            retention.window_problem(
                admin,
                topic,
                inbox_retention=timedelta(days=settings.inbox_retention_days),
                max_outbox_age=timedelta(hours=settings.outbox_max_age_hours),
            )
            for topic in topics
        )
        return next((problem for problem in found if problem), None)

    return problem
