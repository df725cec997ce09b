"""billing-worker: PDF and e-mail for every invoice. Several may run at once.

does    takes tasks, e-mails before PDFs, and carries them out
reads   tasks of Billing
writes  PDFs and states of invoices; talks SMTP
next    carry_out.py
"""

import os
from functools import partial

from sqlalchemy import Engine

from services.billing import render, send
from services.billing.carry_out import Work, Worker
from services.billing.pdf import Renderer
from services.billing.settings import WorkerSettings
from shared.messaging.errors import Transient
from shared.runtime import database, process
from shared.runtime.settings import load


def main() -> None:
    settings = load(WorkerSettings)
    os.nice(settings.niceness)
    engine = database.engine(settings.database_url, settings.process, pool_size=2)
    running = process.begin(settings, ready=[database.answers(engine)])
    running.run_forever(create(engine, settings).step, idle_s=settings.poll_s, retry_on=(Transient,))


def create(engine: Engine, settings: WorkerSettings) -> Worker:
    """E-mails first: what is nearly done is finished before something new is begun."""
    kinds: dict[str, Work] = {
        send.KIND: send.Sender(engine, settings).send,
        render.KIND: partial(render.render, engine, Renderer()),
    }
    return Worker(engine, settings, kinds)


if __name__ == "__main__":
    main()
