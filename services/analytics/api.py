"""analytics-api: the HTTP side of Analytics.

does    answers requests for sales figures, and shows them on a page; dead letters, for the operator
reads   the database of Analytics
writes  only what an operator does to dead letters
next    sales.py, shared/letters/api.py
"""

from apiflask import APIFlask

from services.analytics import sales
from services.analytics.projections import HANDLERS
from services.analytics.settings import ApiSettings
from shared.contracts import CONTRACTS
from shared.letters import api as letters_api
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ApiSettings)
    engine = database.engine(settings.database_url, settings.process)
    app = web.create_app(__name__, "Analytics", ready=[database.answers(engine)])
    app.config["SECURITY_SCHEMES"] = {"operator": {"type": "http", "scheme": "bearer"}}
    app.register_blueprint(sales.blueprint(engine))
    app.register_blueprint(letters_api.create(engine, settings.operator_token, HANDLERS, CONTRACTS))
    return app
