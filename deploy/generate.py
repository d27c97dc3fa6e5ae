"""Write the objects of this folder and the Helm chart from ``src/fairway/install``.

The kustomizations are written by hand.

python deploy/generate.py            # writes them; a test fails when they are not what this would write
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fairway.api import crds
from fairway.install import chart
from fairway.install.dashboards import DASHBOARDS, dashboard_text
from fairway.install.installation import OURS, RIGHTS, cluster_rights, part_text
from fairway.providers.rbac import FLEET_RULES
from kubewire.documents.writer import dump_yaml

HERE: Final = Path(__file__).parent
PARTS: Final[Mapping[str, str]] = {
    "account": "base/account.yaml",
    "leases": "base/leases.yaml",
    "disruption": "base/disruption.yaml",
    "services": "base/services.yaml",
    "network": "base/network.yaml",
    "deployment": "workload/deployment.yaml",
    "roles": "users/roles.yaml",
    "readers": "controllers/serving/readers.yaml",
    "acceptance-policy": "controllers/acceptance/policy.yaml",
    "ocm-policy": "ocm/policy.yaml",
    "servicemonitor": "monitoring/servicemonitor.yaml",
    "alerts": "monitoring/alerts.yaml",
}
"""File of each part."""

FROM_TYPES: Final = "# Written by deploy/generate.py from the types in src/fairway/api.\n"
FROM_RULES: Final = "# Written by deploy/generate.py from the rules in src/fairway/controllers.\n"
FROM_PROVIDERS: Final = "# Written by deploy/generate.py from the rules in src/fairway/providers.\n"
FROM_PARTS: Final = "# Written by deploy/generate.py from src/fairway/install/parts/{name}.yaml.\n"


def files() -> dict[str, str]:
    """Contents by path."""
    written = {path: FROM_TYPES + _text([definition]) for path, definition in definitions()}
    for controller, rules in RIGHTS.items():
        written[f"controllers/{controller}/rbac.yaml"] = FROM_RULES + _text(cluster_rights(controller, rules))
    of_provider = cluster_rights("provider", FLEET_RULES, account="fairway-provider")
    written["providers/rbac.yaml"] = FROM_PROVIDERS + _text(of_provider)
    for name, path in PARTS.items():
        written[path] = FROM_PARTS.format(name=name) + part_text(name)
    for uid in DASHBOARDS:
        written[f"monitoring/{uid}.json"] = dashboard_text(uid)
    return written | {f"helm/fairway/{path}": content for path, content in chart.files().items()}


def definitions() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for definition in crds():
        names = definition["spec"]["names"]
        folder = "fairway" if names["kind"] in OURS else "ocm"
        yield f"crds/{folder}/{names['plural']}.yaml", definition


def _text(documents: Iterable[Mapping[str, Any]]) -> str:
    return "---\n".join(dump_yaml(document, sort_keys=False) for document in documents)


def main() -> int:
    for path, content in files().items():
        file = HERE / path
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
            print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
