"""A fuzzer reads /openapi.json and asks all it can think of: no 5xx, and every answer is one of those described."""

from typing import Any

import pytest
import schemathesis
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.orders import OPERATOR, place, wanted

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    missing_required_header,
    negative_data_rejection,
]
EXAMPLES = 40
"""Per operation, kind of data and kind of id: about 30 s in all."""


@pytest.mark.parametrize("mode", GenerationMode)
def test_no_request_makes_the_api_fail_or_answer_what_is_not_described(shop: FlaskClient, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_wsgi("/openapi.json", shop.application)
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    assert len(operations) == 6
    for operation in operations:
        ask(operation, mode)
        if "{order_id}" in operation.path:
            # With an order that is there, requests get further than to the 404.
            ask(operation, mode, path_parameters={"order_id": place(shop)["id"]})
        elif operation.label == "POST /v1/orders" and mode is GenerationMode.POSITIVE:
            # With products that are there, to the 201.
            ask(operation, mode, body=wanted())


def ask(operation: Any, mode: GenerationMode, **fixed: Any) -> None:
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
        return  # there is nothing that could be wrong

    # The token is always sent where one is needed, so a request whose only fault was its lack is none.
    secured = operation.security is not None and bool(operation.definition.raw.get("security"))
    checks = [check for check in CHECKS if not (secured and check is negative_data_rejection)]

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode, **fixed))
    def examples(case: Any) -> None:
        case.call_and_validate(headers=OPERATOR if secured else None, checks=checks)

    examples()
