"""analytics-api: the HTTP side of Analytics.

does    answers requests for sales figures, and shows them on a page
reads   the database of Analytics
writes  nothing
next    sales.py
"""

from apiflask import APIFlask

from services.analytics import sales
from services.analytics.settings import ApiSettings
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ApiSettings)
    engine = database.engine(settings.database_url, settings.process)
    app = web.create_app(__name__, "Analytics", ready=[database.answers(engine)])
    app.register_blueprint(sales.blueprint(engine))
    return app
