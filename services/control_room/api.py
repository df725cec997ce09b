"""control-room: the page that shows effectively-once happen, and breaks it on request.

does    answers requests
reads   all three databases as auditor, the topic, the mailbox, every process's operations port
writes  nothing by itself; what a person with the token asks for goes through faults.py
next    faults_api.py
"""

from typing import Any

from apiflask import APIFlask

from services.control_room import faults_api
from services.control_room.access import Access
from services.control_room.buying import Buyer
from services.control_room.journal import Journal
from services.control_room.ops_ports import OpsPorts
from services.control_room.settings import ControlRoomSettings
from shared.runtime import database, web
from shared.runtime.settings import load


def create_app() -> APIFlask:
    return app_on(load(ControlRoomSettings))


def app_on(settings: ControlRoomSettings) -> APIFlask:
    engines = [database.engine(url, settings.process, pool_size=2) for url in settings.database_urls()]
    app = web.create_app(__name__, "Control room", ready=[database.answers(engine) for engine in engines])
    app.config["SECURITY_SCHEMES"] = {"token": {"type": "http", "scheme": "bearer"}}
    access, journal = Access(settings.control_room_token), Journal()
    ports = OpsPorts(settings.ops_ports, settings.failpoints_token)
    buyer = Buyer(settings.orders_url, journal)
    app.register_blueprint(faults_api.create(settings, ports, journal, buyer, access))

    @app.get("/v1/processes")
    @app.doc(summary="How every process is", tags=["Watching"])
    def processes() -> dict[str, Any]:
        return {"processes": {name: state._asdict() for name, state in ports.states().items()}}

    return app
