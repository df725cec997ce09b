"""billing-api: the HTTP side of Billing: invoices, their PDFs, and dead letters.

does    answers requests
reads   the database of Billing
writes  only what an operator does to dead letters
next    invoices_api.py, shared/letters/api.py
"""

from apiflask import APIFlask
from sqlalchemy import Engine

from services.billing import invoices_api
from services.billing.handlers import HANDLERS
from services.billing.settings import ApiSettings
from shared.contracts import CONTRACTS
from shared.letters import api as letters_api
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ApiSettings)
    return app_on(database.engine(settings.database_url, settings.process), settings.operator_token)


def app_on(engine: Engine, operator_token: str) -> APIFlask:
    app = web.create_app(__name__, "Billing", ready=[database.answers(engine)])
    app.config["SECURITY_SCHEMES"] = {"operator": {"type": "http", "scheme": "bearer"}}
    app.register_blueprint(invoices_api.create(engine, operator_token))
    app.register_blueprint(letters_api.create(engine, operator_token, HANDLERS, CONTRACTS))
    return app
