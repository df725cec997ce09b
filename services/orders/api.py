"""orders-api: the HTTP side of Orders, for programs (/v1) and for people (the storefront).

does    answers requests
reads   HTTP
writes  orders and outbox, through the use cases
next    routes.py
"""

from apiflask import APIFlask
from sqlalchemy import Engine
from sqlalchemy.orm import sessionmaker

from services.orders import idempotency
from services.orders.routes import v1
from services.orders.settings import ApiSettings
from services.orders.storefront import storefront
from shared.messaging import outbox, retention
from shared.messaging.errors import Transient
from shared.runtime import database, problems, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ApiSettings)
    return app_on(engine_of(settings), settings, hinter=outbox.Hinter(settings.database_url))


def engine_of(settings: ApiSettings) -> Engine:
    # Nobody who waits in front of a browser should wait longer for a lock; idempotency.py answers 409 then.
    options = f"-c lock_timeout={idempotency.WAIT_S}s"
    # One for each request that is worked on, and one for the readiness check.
    return database.engine(
        settings.database_url, settings.process, pool_size=settings.http_threads + 1, options=options
    )


def app_on(engine: Engine, settings: ApiSettings, *, hinter: outbox.Hinter | None = None) -> APIFlask:
    sessions = sessionmaker(engine)
    if hinter:
        hinter.watch(sessions)
    app = web.create_app(__name__, "Orders", ready=[database.answers(engine), retention.ahead(engine, "outbox")])
    app.config["SECURITY_SCHEMES"] = {"operator": {"type": "http", "scheme": "bearer"}}
    # The outbox speaks of its own errors: away, overloaded, or tomorrow's partition is missing.
    app.register_error_handler(Transient, lambda error: problems.of_database(error).response())
    app.register_blueprint(v1(sessions, settings.operator_token))
    app.register_blueprint(storefront(sessions, settings.billing_public_url))
    return app
