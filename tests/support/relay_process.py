"""A relay as a service would run it, with short time-outs: `python -m tests.support.relay_process`."""

import os

from shared.messaging.errors import Transient
from shared.messaging.kafka import KafkaSettings
from shared.messaging.relay import Relay
from shared.runtime import failpoints, logs
from shared.runtime.loop import Pulse, Stop, run_forever
from tests.support.producing import QUICK

if __name__ == "__main__":
    logs.configure("orders-relay")
    failpoints.configure(os.environ.get("FAILPOINTS", ""))
    stop = Stop.on_signals()
    relay = Relay("orders", os.environ["DATABASE_URL"], KafkaSettings(os.environ["KAFKA_BOOTSTRAP"]), QUICK)
    run_forever(relay.step, stop, Pulse(30), wait=relay.wait, idle_s=0.5, retry_on=(Transient,))
    relay.close()
