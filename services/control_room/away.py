"""What the control room asks may be away: after all it breaks things. Then the answer says who, instead of a traceback.

does    turns the errors of its plain clients (psycopg, urllib, Kafka's) into problem documents
reads   nothing
writes  nothing
next    shared/runtime/problems.py, which does the same for SQLAlchemy
"""

import http.client
import urllib.error

import psycopg
from apiflask import APIFlask
from confluent_kafka import KafkaException
from flask import request

from shared.runtime import logs, problems
from shared.runtime.problems import Problem

MAILBOX_ERRORS = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)
"""Refused; cut off in the middle; cut off while reading; silent. The mailbox is the only server that is asked without a
handler of its own. No OSError in general: a missing file is a bug."""


def install(app: APIFlask) -> None:
    app.register_error_handler(psycopg.OperationalError, lambda error: problems.of_database(error).response())
    app.register_error_handler(KafkaException, lambda error: _kafka(error).response())
    for kind in MAILBOX_ERRORS:
        app.register_error_handler(kind, lambda error: _mailbox(error).response())


def _kafka(error: Exception) -> Problem:
    logs.get().warning("Kafka did not answer", path=request.path, error=str(error))
    return Problem(503, "kafka-away", f"Kafka does not answer: {error}", headers={"Retry-After": "1"})


def _mailbox(error: Exception) -> Problem:
    logs.get().warning("the mailbox did not answer", path=request.path, error=str(error))
    return Problem(503, "mailbox-away", f"The mailbox does not answer: {error}", headers={"Retry-After": "1"})
