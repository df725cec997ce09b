"""billing-api: the HTTP side of Billing: invoices, their PDFs, and dead letters.

does    answers requests
reads   the database of Billing
writes  only what an operator does to dead letters
next    invoices_api.py, dead_letters_api.py
"""

from apiflask import APIFlask

from services.billing import dead_letters_api, invoices_api
from services.billing.settings import ApiSettings
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ApiSettings)
    engine = database.engine(settings.database_url, settings.process)
    app = web.create_app(__name__, "Billing", ready=[database.answers(engine)])
    app.config["SECURITY_SCHEMES"] = {"operator": {"type": "http", "scheme": "bearer"}}
    app.register_blueprint(invoices_api.create(engine, settings.operator_token))
    app.register_blueprint(dead_letters_api.create(engine, settings.operator_token))
    return app
