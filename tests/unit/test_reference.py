"""The rendered API reference: our own files only."""

import re

from shared.runtime import web
from shared.runtime.reference import POLICY


def test_the_reference_is_served_and_only_it_may_style_from_a_script() -> None:
    client = web.create_app("tests", "Tests").test_client()
    with client.get("/reference") as page:
        assert page.headers["Content-Security-Policy"] == POLICY
        paths = re.findall(r'(?:href|src)="(/[^"]+)"', page.get_data(as_text=True))
    assert len(paths) == 3
    for path in paths:
        with client.get(path) as file:
            assert file.status_code == 200, path
            assert "unsafe" not in file.headers["Content-Security-Policy"]
