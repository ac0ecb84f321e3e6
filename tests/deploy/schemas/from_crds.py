"""Makes the JSON schemas beside this file from the custom resource definitions of their projects; needs Go.

``python -m tests.deploy.schemas.from_crds`` downloads the Go modules that hold them, through Go's own proxy, and
writes what the tests read; so the tests need neither Go nor a network. The projects are under the Apache License 2.0
(https://www.apache.org/licenses/LICENSE-2.0), as is this one. What is changed: descriptions and Kubernetes' own
keywords are left out, and keys that a definition does not name are refused, where the API server would drop them.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).parent

_SOURCES: Final = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": [
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ],
    "github.com/kedacore/keda/v2@v2.21.0": [
        "config/crd/bases/keda.sh_scaledobjects.yaml",
        "config/crd/bases/keda.sh_triggerauthentications.yaml",
    ],
    "github.com/kubeflow/spark-operator/v2@v2.3.0": [
        "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",
    ],
}


def main() -> None:
    """Download the definitions and write the schemas."""
    with tempfile.TemporaryDirectory() as cache:
        for module, files in _SOURCES.items():
            folder = _download(module, Path(cache))
            for file in files:
                definition = yaml.safe_load((folder / file).read_text(encoding="utf-8"))
                for version in definition["spec"]["versions"]:
                    _write(module, definition, version)
        # Go keeps what it downloads read-only, which would keep it from being removed.
        subprocess.run(
            ["go", "clean", "-modcache"], check=True, env={**os.environ, "GOMODCACHE": cache}, timeout=60, cwd=cache
        )


def _download(module: str, cache: Path) -> Path:
    done = subprocess.run(
        ["go", "mod", "download", "-json", module],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
        cwd=cache,
        env={**os.environ, "GOMODCACHE": str(cache), "GOFLAGS": "-mod=mod"},
    )
    return Path(json.loads(done.stdout)["Dir"])


def _write(module: str, definition: dict[str, Any], version: dict[str, Any]) -> None:
    names = definition["spec"]["names"]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"Made by {Path(__file__).name} from {module} (Apache License 2.0); changes: see there.",
        **_plain(version["schema"]["openAPIV3Schema"]),
    }
    # The API server knows these of every kind.
    schema["properties"]["metadata"] = {"type": "object"}
    group = definition["spec"]["group"]
    file = HERE / f"{names['kind'].lower()}-{group}-{version['name']}.json"
    file.write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sys.stdout.write(f"{file.name}\n")


def _plain(node: Any) -> Any:
    """A schema without descriptions and Kubernetes' keywords, which refuses keys that it does not name."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key.startswith("x-kubernetes-") or key in {"format", "default"}:
            continue
        if key == "description" and isinstance(value, str):
            continue
        if key == "properties":
            kept[key] = {name: _plain(inner) for name, inner in value.items()}
        elif key == "pattern" and "(?i)" in value:
            # Go lets a flag stand anywhere, Python only in front.
            kept[key] = "(?i)" + value.replace("(?i)", "")
        else:
            kept[key] = _plain(value)
    if (
        "properties" in kept
        and "additionalProperties" not in kept
        and not node.get("x-kubernetes-preserve-unknown-fields")
    ):
        kept["additionalProperties"] = False
    return kept


if __name__ == "__main__":
    main()
