"""control-room: the page that shows effectively-once happen.

does    answers requests
reads   all three databases, as auditor
writes  nothing
next    settings.py
"""

from apiflask import APIFlask

from services.control_room.settings import ControlRoomSettings
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ControlRoomSettings)
    engines = [database.engine(url, settings.process, pool_size=2) for url in settings.database_urls()]
    return web.create_app(__name__, "Control room", ready=[database.answers(engine) for engine in engines])
