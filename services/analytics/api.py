"""analytics-api: the HTTP side of Analytics.

does    answers requests
reads   the database of Analytics
writes  nothing yet
next    settings.py
"""

from apiflask import APIFlask

from services.analytics.settings import ApiSettings
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ApiSettings)
    engine = database.engine(settings.database_url, settings.process)
    return web.create_app(__name__, "Analytics", ready=[database.answers(engine)])
