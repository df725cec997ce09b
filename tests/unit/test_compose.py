"""The two modes run the same thing: what native mode makes of docker-compose.yml, compared with the file itself."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.native import compose
from infra.native.stack import PROJECT
from tests.support.stacks import SECRETS

OFFSET = 1000
RUN = Path("/a run/folder")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The file as Compose reads it, by a second and simpler reading than the one under test."""
    text = (PROJECT / "docker-compose.yml").read_text()
    text = re.sub(r"\$\{(\w+)(?::[?-]([^}]*))?\}", lambda m: SECRETS.get(m[1], m[2] or ""), text)
    read: dict[str, Any] = yaml.safe_load(text)["services"]
    return {name: service for name, service in read.items() if service.get("profiles", ["naive"]) == ["naive"]}


@pytest.fixture(scope="module")
def plan() -> compose.Plan:
    return compose.read(PROJECT, RUN, SECRETS | {"COMPOSE_PROFILES": "naive"}, offset=OFFSET)


def test_both_modes_run_the_same_processes_in_the_same_order(services: dict[str, Any], plan: compose.Plan) -> None:
    assert list(plan.programs) == list(services)
    for name, service in services.items():
        wanted = {other: entry["condition"] for other, entry in service.get("depends_on", {}).items()}
        assert plan.programs[name].after == wanted


def test_a_service_with_a_profile_runs_only_when_its_profile_is_asked_for(services: dict[str, Any]) -> None:
    ordinary = compose.read(PROJECT, RUN, SECRETS).programs
    assert list(ordinary) == [name for name, service in services.items() if "profiles" not in service]
    assert "naive-orders" not in ordinary
    other = compose.read(PROJECT, RUN, SECRETS | {"COMPOSE_PROFILES": "another,naive"}).programs
    assert list(other) == list(services)


def test_both_modes_run_the_same_commands(services: dict[str, Any], plan: compose.Plan) -> None:
    for name, service in services.items():
        entrypoint = service.get("x-native", {}).get("entrypoint", [])
        assert plan.programs[name].command == [*entrypoint, *service.get("command", [])], name


def test_both_modes_have_the_same_settings_but_for_addresses_and_folders(
    services: dict[str, Any], plan: compose.Plan
) -> None:
    for name, service in services.items():
        native = {k: v for k, v in plan.programs[name].environment.items() if not k.startswith("NATIVE_")}
        assert native.keys() == service.get("environment", {}).keys(), name
        for key, value in service.get("environment", {}).items():
            assert _without_places(native[key]) == _without_places(str(value)), f"{name}: {key}"


def _without_places(value: str) -> str:
    """Blank out what may differ: host:port, and the beginning of a path."""
    value = re.sub(r"[\w.-]+:\d{4,5}\b", "<address>", value)
    return re.sub(rf"^({RUN}/(data|tmp)/[\w-]+|/tmp|/var/lib/kafka/data)", "<folder>", value)


def test_every_address_is_on_loopback_and_leads_to_the_process_it_names(plan: compose.Plan) -> None:
    owner = {port: name for name, program in plan.programs.items() for port in program.ports}
    relay = plan.programs["orders-relay"].environment
    port = int(relay["KAFKA_BOOTSTRAP"].removeprefix("127.0.0.1:"))
    assert owner[port] == "kafka"
    assert f"@127.0.0.1:{15432 + OFFSET}/orders" in relay["DATABASE_URL"]
    for program in plan.programs.values():
        assert "0.0.0.0" not in str(program.environment)


def test_an_address_for_the_browser_leads_to_the_published_port_here(plan: compose.Plan) -> None:
    told = plan.programs["orders-api"].environment["BILLING_PUBLIC_URL"]
    assert told == f"http://127.0.0.1:{plan.programs['billing-api'].published[0]}"
    moved = compose.read(PROJECT, RUN, SECRETS | {"BILLING_PORT": "18002"}, offset=OFFSET)
    assert moved.programs["orders-api"].environment["BILLING_PUBLIC_URL"] == f"http://127.0.0.1:{18002 + OFFSET}"


def test_no_two_processes_want_the_same_port(plan: compose.Plan) -> None:
    ports = [port for program in plan.programs.values() for port in program.ports]
    assert len(ports) == len(set(ports))


def test_everything_that_runs_on_has_a_health_check(plan: compose.Plan) -> None:
    assert [program.name for program in plan.programs.values() if not program.is_step and not program.health] == []


def test_containers_are_hardened_and_reachable_from_this_machine_only(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["user"] not in ("root", "0"), name
        assert service["mem_limit"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert service["restart"] == ("unless-stopped" if "healthcheck" in service else "no"), name


def test_only_billing_gets_the_libraries_of_the_pdf_renderer(services: dict[str, Any]) -> None:
    with_packages = {s["image"] for s in services.values() if "SYSTEM_PACKAGES" in s.get("build", {}).get("args", {})}
    assert with_packages == {"effectively-once/billing"}


def write(folder: Path, services: str) -> Path:
    (folder / "docker-compose.yml").write_text("services:\n" + services)
    return folder


@pytest.mark.parametrize(
    ("services", "complaint"),
    [
        ("  a: {image: x}", "no command"),
        ("  a: {image: x, command: [x]}", "needs Docker"),
        ("  a: {build: ., command: [x], ports: ['8000:8000']}", "127.0.0.1:<published>:<inside>"),
        ("  a: {build: ., command: [x], environment: {B: '0.0.0.0:81'}}", "neither publishes nor exposes"),
        ("  a: {build: ., command: [x], environment: {B: 'http://127.0.0.1:81'}}", "neither publishes nor exposes"),
        ("  a: {build: ., command: [x], environment: {B: '${C:?say why}'}}", "C is not set: say why"),
        ("  a: {build: ., command: [x], volumes: ['./here:/there']}", "named volume"),
    ],
)
def test_what_cannot_be_followed_is_said(tmp_path: Path, services: str, complaint: str) -> None:
    with pytest.raises(compose.BadComposeFile, match=re.escape(complaint)):
        compose.read(write(tmp_path, services), tmp_path, {})


def test_a_circle_of_dependencies_is_said(tmp_path: Path) -> None:
    circle = "".join(
        f"  {a}: {{build: ., command: [x], depends_on: {{{b}: {{condition: service_healthy}}}}}}\n"
        for a, b in (("a", "b"), ("b", "a"))
    )
    with pytest.raises(compose.BadComposeFile, match="circle"):
        compose.read(write(tmp_path, circle), tmp_path, {}).waves()


def test_variables_follow_the_rules_of_compose(tmp_path: Path) -> None:
    services = "  a: {build: ., command: ['${A}', '${B:-b}', '${C:-c}', '$$D']}"
    plan = compose.read(write(tmp_path, services), tmp_path, {"A": "1", "B": "2", "C": ""})
    assert plan.programs["a"].command == ["1", "2", "c", "$D"]


@pytest.mark.parametrize("password", ["8a1b", "12345678"])
def test_a_password_that_begins_with_a_digit_is_not_taken_for_a_port(password: str) -> None:
    plan = compose.read(PROJECT, RUN, SECRETS | {"POSTGRES_PASSWORD": password}, offset=OFFSET)
    assert f":{password}@127.0.0.1:" in plan.programs["databases"].environment["ADMIN_URL"]


def test_what_compose_starts_on_request_only_is_left_to_compose(plan: compose.Plan) -> None:
    services = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
    assert set(services) - set(plan.programs) == {"prometheus"}
    assert services["prometheus"]["profiles"] == ["monitoring"]
