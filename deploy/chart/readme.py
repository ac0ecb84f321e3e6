"""helm/README.md: every value with its default and what values.yaml says of it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from deploy.chart.schema import WHOLE

_HEAD: Final = """\
# calibration-monitor {version}

<!-- Written by `python -m deploy.chart`; a test compares. Edit values.yaml and deploy/chart/readme.py instead. -->

{description}. Service {app}; Kubernetes {kube}.

```
helm install calibration helm/ --namespace calibration --create-namespace
helm test calibration --namespace calibration
```

How to install and secure it, step by step: [docs/kubernetes.md](../docs/kubernetes.md). How to scale, upgrade and back
it up: [docs/kubernetes-operations.md](../docs/kubernetes-operations.md). Keys that the table does not have are refused,
each with a line that names it; so are values that do not fit together, with what to do.

What the chart makes:

| object | when |
|---|---|
| StatefulSet with a volume, Services (one headless), ConfigMap, ServiceAccount without a token | always |
| PodDisruptionBudget | `podDisruptionBudget.enabled` (so by default) |
| NetworkPolicies | `networkPolicy.enabled` |
| ServiceMonitor | `serviceMonitor.enabled` |
| PrometheusRule of [rules/](rules) | `rules.enabled` |
| ConfigMaps of [dashboards/](dashboards) | `dashboards.enabled` |
| CronJob | for each of `recalibration.models` |
| Ingress | `ingress.enabled` |
| ScaledObject, TriggerAuthentication | `keda.enabled` |
"""


def readme(chart: Mapping[str, Any], values: Mapping[str, Any], comments: Mapping[tuple[str, ...], str]) -> str:
    """The page, whole."""
    text = _HEAD.format(
        version=chart["version"],
        description=chart["description"],
        app=chart["appVersion"],
        kube=chart["kubeVersion"].replace(">=", "").removesuffix("-0") + " or newer",
    )
    lines = [text, "## Values", "", "| key | default | meaning |", "|---|---|---|"]
    for path, default in rows(values, ()):
        own = comments.get(path, "")
        lines.append(f"| `{'.'.join(path)}` | {_shown(default)} | {_cell(own)} |")
    return "\n".join(lines) + "\n"


def rows(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that a table has a row for, with its default."""
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in WHOLE:
            yield from rows(value, (*path, key))
        else:
            yield (*path, key), value


def _shown(default: Any) -> str:
    if default == "":
        return '`""`'
    if isinstance(default, dict) and default:
        text = yaml.safe_dump(default, default_flow_style=True, width=10_000, sort_keys=False).strip()
        return f"`{text}`"
    return f"`{json.dumps(default) if not isinstance(default, str) else default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
