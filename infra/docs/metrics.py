"""What every process counts (`/metrics` on its operations port), and when a person has to look. With Docker,
`docker compose --profile monitoring up -d prometheus` starts a Prometheus with these alerts.
"""

from importlib import import_module
from types import ModuleType

import yaml
from prometheus_client.metrics import MetricWrapperBase

from infra.docs.markdown import code, table
from infra.native.stack import PROJECT

MODULES = {"shared.messaging.metrics": "The pattern", "services.housekeeping.metrics": "Housekeeping"}


def body() -> str:
    parts = [f"## {title}\n\n{_metrics(import_module(name))}" for name, title in MODULES.items()]
    return "\n\n".join([*parts, f"## Alerts\n\n{_alerts()}"])


def _metrics(module: ModuleType) -> str:
    rows = []
    for metric in vars(module).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = ", ".join(map(code, metric._labelnames))
            rows.append([code(name), family.type, labels, family.documentation])
    return table(["metric", "type", "labels", ""], rows)


def _alerts() -> str:
    groups = yaml.safe_load((PROJECT / "infra" / "prometheus" / "alerts.yml").read_text())["groups"]
    rows = [
        [rule["alert"], code(rule["expr"]), rule["labels"]["severity"], rule["annotations"]["todo"]]
        for group in groups
        for rule in group["rules"]
    ]
    return table(["alert", "when", "severity", "what to do"], rows)
