"""orders-api: the HTTP side of Orders.

does    answers requests
reads   the database of Orders
writes  nothing yet
next    settings.py
"""

from apiflask import APIFlask

from services.orders.settings import ApiSettings
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ApiSettings)
    engine = database.engine(settings.database_url, settings.process)
    return web.create_app(__name__, "Orders", ready=[database.answers(engine)])
