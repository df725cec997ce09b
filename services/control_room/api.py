"""control-room: the page that shows effectively-once happen, and breaks it on request.

does    answers requests; one thread of the server samples for all who watch
reads   all three databases as auditor, the topic, the mailbox, every process's operations port
writes  nothing by itself; what a person with the token asks for goes through faults.py
next    watching_api.py and sampler.py (looking), faults_api.py (breaking)
"""

import threading
from collections.abc import Callable

from apiflask import APIFlask

from services.control_room import away, faults_api, letters_api, lives_api, watching_api
from services.control_room.access import Access
from services.control_room.buying import Buyer
from services.control_room.hub import Hub
from services.control_room.journal import Journal
from services.control_room.naive import NaiveShop
from services.control_room.ops_ports import OpsPorts
from services.control_room.processes import Processes
from services.control_room.sampler import Sampler
from services.control_room.settings import ControlRoomSettings
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    settings = load(ControlRoomSettings)
    engines = [database.engine(url, settings.process, pool_size=2) for url in settings.database_urls()]
    app = web.create_app(__name__, "Control room", ready=[database.answers(engine) for engine in engines])
    app.config["SECURITY_SCHEMES"] = {"token": {"type": "http", "scheme": "bearer"}}
    away.install(app)
    hub = Hub()
    access, journal = Access(settings.control_room_token), Journal(hub.hurry)
    ports = OpsPorts(settings.ops_ports, settings.failpoints_token)
    processes, buyer = Processes(ports), Buyer(settings.orders_url, journal)
    naive = NaiveShop(settings, journal)
    sampler = Sampler(settings, processes, journal, hub, naive)
    app.register_blueprint(watching_api.create(settings, access, hub, sampler, processes))
    app.register_blueprint(faults_api.create(settings, ports, processes, journal, buyer, naive, access))
    app.register_blueprint(lives_api.create(settings, access))
    app.register_blueprint(letters_api.create(settings, access, journal))
    _on_first_request(app, sampler.start, naive.start)
    return app


def _on_first_request(app: APIFlask, *begin: Callable[[], None]) -> None:
    """Soon: somebody asks after the server's health. An app that only describes itself never looks at anything."""
    once, waiting = threading.Lock(), list(begin)

    @app.before_request
    def start() -> None:
        with once:
            while waiting:
                waiting.pop()()
