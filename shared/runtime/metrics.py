"""Prometheus text for one process, or for all workers of a web server together.

Workers of one web server write to files in PROMETHEUS_MULTIPROC_DIR; whichever worker is asked adds them up.
"""

import os

from prometheus_client import REGISTRY, CollectorRegistry, Gauge, generate_latest, multiprocess

UP = Gauge("process_started_time_seconds", "When this process started", multiprocess_mode="mostrecent")


def exposition() -> bytes:
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
