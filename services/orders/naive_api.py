"""naive-orders: how an order is often published: commit it, then tell Kafka, and hope. Not to be copied.

does    takes an order, commits it, then hands its event to a producer
reads   HTTP
writes  orders, in a database of its own; then Kafka orders.naive
next    services/billing/naive_consumer.py; the right way is confirm_order.py and place_order.py

It looks right, it passes its tests, and it works until something dies:

- between the commit and the acknowledgement of Kafka there is nothing but this process's memory: the order is lost;
- a client that got no answer asks again, and nobody remembers that it has asked: the order is doubled.
"""

from uuid import uuid4

from apiflask import APIFlask
from confluent_kafka import Producer
from psycopg.types.json import Jsonb
from sqlalchemy import Engine

from services.orders.schemas import WantedOrder
from services.orders.settings import NaiveSettings
from shared.contracts.orders_confirmed import Line, OrderConfirmed
from shared.runtime import database, web
from shared.runtime.settings import load

TABLE = """
CREATE TABLE IF NOT EXISTS orders (
    id uuid PRIMARY KEY, currency text NOT NULL, lines jsonb NOT NULL, total bigint NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT now()
)
"""
INSERT = "INSERT INTO orders (id, currency, lines, total) VALUES (%s, %s, %s, %s) RETURNING ordered_at"
PRODUCTS = {  # sku → name, price, tax
    "assam": ("Assam, 250 g", 890, 700),
    "espresso": ("Espresso beans, 500 g", 1450, 700),
    "cup": ("Stoneware cup", 1490, 1900),
    "teapot": ("Stoneware teapot", 4490, 1900),
}


def create_app() -> APIFlask:
    settings = load(NaiveSettings)
    engine = database.engine(settings.database_url, settings.process)
    with engine.begin() as connection:
        connection.exec_driver_sql(TABLE)
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap, "log_level": 3})
    app = web.create_app(__name__, "Naive orders", ready=[database.answers(engine)])

    @app.get("/v1/products")
    def products() -> dict[str, list[dict[str, str]]]:
        return {"items": [{"sku": sku} for sku in PRODUCTS]}

    @app.post("/v1/orders")
    @app.input(WantedOrder, arg_name="wanted")
    def order(wanted: WantedOrder) -> tuple[dict[str, str], int]:
        placed = place(engine, wanted)
        # Committed. From here on the order's only hope is that this process lives until Kafka has answered.
        producer.produce(settings.topic, placed.model_dump_json(), str(placed.order_id))
        producer.poll(0)
        return {"id": str(placed.order_id)}, 201

    return app


def place(engine: Engine, wanted: WantedOrder) -> OrderConfirmed:
    lines = []
    for line in wanted.lines:
        name, price, tax = PRODUCTS[line.sku]
        lines.append(Line(sku=line.sku, name=name, quantity=line.quantity, unit_price=price, tax_basis_points=tax))
    order_id, total = uuid4(), sum(line.quantity * line.unit_price for line in lines)
    with engine.begin() as connection:
        values = (order_id, wanted.currency, Jsonb([line.model_dump() for line in lines]), total)
        ordered_at = connection.exec_driver_sql(INSERT, values).scalar_one()
    return OrderConfirmed(
        order_id=order_id, currency=wanted.currency, customer=wanted.customer.model_dump(), lines=lines, total=total,
        confirmed_at=ordered_at,
    )  # fmt: skip
