"""An alert about a metric that nobody writes never rings: the names in infra/prometheus are those of the code."""

import re
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from infra.native.stack import PROJECT
from services.housekeeping import metrics as housekeeping
from shared.messaging import metrics as messaging

FOLDER = PROJECT / "infra" / "prometheus"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
WORDS = {"up", "time", "or", "and"}
"""What PromQL and Prometheus bring themselves."""


def known() -> dict[str, set[str]]:
    """Every metric that the code declares, as Prometheus sees it → its labels."""
    declared = [each for module in (messaging, housekeeping) for each in vars(module).values()]
    metrics = [each for each in declared if isinstance(each, MetricWrapperBase)]
    return {
        family.name + ("_total" if family.type == "counter" else ""): {*metric._labelnames, "instance"}
        for metric in metrics
        for family in metric.describe()
    }


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_speaks_of_metrics_and_labels_that_exist(name: str) -> None:
    rule, metrics = ALERTS[name], known()
    expression = re.sub(r"\{[^}]*\}", "", rule["expr"])
    named = set(re.findall(r"[a-z_]+", expression)) - WORDS
    assert named <= set(metrics), f"nobody writes {named - set(metrics)}"
    labels = set.union({"instance"}, *(metrics[metric] for metric in named))
    used = set(re.findall(r"\$labels\.(\w+)", str(rule))) | set(re.findall(r"(\w+)=", rule["expr"].replace("==", "")))
    assert used <= labels, f"{named} has no label {used - labels}"
    assert set(rule["annotations"]) == {"summary", "todo"}


def test_every_process_with_an_operations_port_is_asked() -> None:
    services = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
    ports = {
        f"{name}:{service['environment']['OPS_BIND'].rpartition(':')[2]}"
        for name, service in services.items()
        if "OPS_BIND" in service.get("environment", {}) and "profiles" not in service
    }
    (job,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    (targets,) = job["static_configs"]
    assert set(targets["targets"]) == ports
