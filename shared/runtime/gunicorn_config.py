"""How gunicorn runs a service's HTTP API (see the command of orders-api in docker-compose.yml).

Every worker also serves the operations port (the kernel shares it between them) and adds its counts to the files in
PROMETHEUS_MULTIPROC_DIR. Health is asked of the HTTP port itself: a server whose threads all hang is ill.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from prometheus_client import multiprocess

from shared.runtime.settings import ProcessSettings, load, require_host_and_port

bind = require_host_and_port(os.environ.get("HTTP_BIND", "127.0.0.1:8000"))
workers = int(os.environ.get("HTTP_WORKERS", "1"))
threads = int(os.environ.get("HTTP_THREADS", "4"))
worker_class = "gthread"
graceful_timeout = 10
# A client that asks again on a connection in the moment in which it is closed for being idle sees a failure. Rarely.
keepalive = 75
# The default control socket has one fixed path per user: several services would fight for it.
control_socket_disable = True
# gunicorn's heartbeat file must not be on a disk; containers have /dev/shm too.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


def on_starting(_server: Any) -> None:
    load(ProcessSettings)
    if counts := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        shutil.rmtree(counts, ignore_errors=True)
        Path(counts).mkdir(parents=True)


def post_fork(_server: Any, _worker: Any) -> None:
    from shared.runtime import failpoints, logs
    from shared.runtime.ops import Ops
    from shared.runtime.probe import probe

    settings = load(ProcessSettings)
    logs.configure(settings.process, settings.log_level)
    failpoints.configure(settings.failpoints, settings.failpoints_dir)
    address = bind.replace("0.0.0.0:", "127.0.0.1:")

    def ask(path: str) -> str | None:
        healthy, answer = probe(f"{address}/{path}", 2.0)
        return None if healthy else answer

    Ops(
        settings.ops_bind,
        alive=lambda: ask("healthz"),
        ready=[lambda: ask("readyz")],
        failpoints_token=settings.failpoints_token,
        shared_by_workers=True,
    ).start()


def post_worker_init(_worker: Any) -> None:
    """The application is loaded; it stays."""
    from shared.runtime.process import tune_interpreter

    tune_interpreter()


def child_exit(_server: Any, worker: Any) -> None:
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
