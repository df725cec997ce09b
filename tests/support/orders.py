"""Orders for tests: its database as the migrations make it, its API in this process, and orders to place."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from flask.testing import FlaskClient

from services.orders.api import app_on, engine_of
from services.orders.settings import ApiSettings
from shared.messaging import retention
from tests.integration.test_migrations import migrate

OPERATOR = {"Authorization": "Bearer not-a-secret-in-a-test"}


@pytest.fixture(scope="session")
def orders_template(postgres: str) -> Iterator[str]:
    """Migrated once; every test copies it."""
    name = f"orders_{uuid4().hex[:12]}"
    url = postgres.rsplit("/", 1)[0] + "/" + name
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    migrate("orders", url)
    with psycopg.connect(url, autocommit=True) as connection:
        retention.create_partitions(connection, "outbox", ahead_days=3)
    yield name
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def orders_url(postgres: str, orders_template: str) -> Iterator[str]:
    """A database of Orders of this test's own."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{orders_template}"'.encode())
    yield postgres.rsplit("/", 1)[0] + "/" + name
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def settings(url: str, **given: Any) -> ApiSettings:
    return ApiSettings(process="orders-api", database_url=url, operator_token="not-a-secret-in-a-test", **given)


@pytest.fixture
def shop(orders_url: str) -> Iterator[FlaskClient]:
    """The API in this process; `shop.application` may be used by several threads, each with its own client."""
    engine = engine_of(settings(orders_url))
    yield app_on(engine, settings(orders_url)).test_client()
    engine.dispose()


def wanted(**changed: Any) -> dict[str, Any]:
    customer = {"name": "Ada Lovelace", "email": "ada@example.org", "address": ["12 St James's Square", "London"]}
    lines = [{"sku": "teapot", "quantity": 1}, {"sku": "assam", "quantity": 3}]
    return {"currency": "EUR", "customer": customer, "lines": lines} | changed


def place(client: FlaskClient, key: str | None = None, **changed: Any) -> Any:
    """The answer's JSON, which must be an order."""
    headers = {"Idempotency-Key": key or uuid4().hex}
    answer = client.post("/v1/orders", json=wanted(**changed), headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.get_json()


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(sql.encode()).fetchall()
