"""Writes what in this folder follows from the code: the definitions in ``crds/``, the rights in ``controllers/``.

python deploy/generate.py            # writes them; a test fails when they are not what this would write
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fairway.api import crds
from fairway.controllers import (
    acceptance,
    addons,
    availability,
    bridge,
    clustersets,
    hosting,
    machines,
    recovery,
    scores,
    serving,
)
from fairway.controllers.placement import rbac as placement
from fairway.documents.writer import dump_yaml
from fairway.kube.rbac import Rule
from fairway.providers.rbac import FLEET_RULES

HERE: Final = Path(__file__).parent
OURS: Final = frozenset({"HostedClusterRequest", "HostingPolicy", "ManagedClusterScore"})
"""Kinds that OCM does not have; all others it brings itself."""
RIGHTS: Final[Mapping[str, Iterable[Rule]]] = {
    "acceptance": acceptance.RULES,
    "addons": addons.RULES,
    "availability": availability.RULES,
    "bridge": bridge.RULES,
    "clustersets": clustersets.RULES,
    "hosting": hosting.RULES,
    "machines": machines.RULES,
    "placement": placement.RULES,
    "recovery": recovery.RULES,
    "scores": scores.RULES,
    "serving": serving.RULES,
    "shadow": placement.SHADOW,
}
ACCOUNT: Final = {"kind": "ServiceAccount", "name": "fairway", "namespace": "fairway-system"}
PROVIDER_ACCOUNT: Final = {**ACCOUNT, "name": "fairway-provider"}

FROM_TYPES: Final = "# Written by deploy/generate.py from the types in src/fairway/api.\n"
FROM_RULES: Final = "# Written by deploy/generate.py from the rules in src/fairway/controllers.\n"
FROM_PROVIDERS: Final = "# Written by deploy/generate.py from the rules in src/fairway/providers.\n"
_GROUP: Final = "rbac.authorization.k8s.io"


def files() -> dict[str, str]:
    """Contents by path."""
    written = {path: FROM_TYPES + dump_yaml(each, sort_keys=False) for path, each in definitions()}
    for controller, rules in RIGHTS.items():
        granted = "---\n".join(dump_yaml(each, sort_keys=False) for each in rights(controller, rules))
        written[f"controllers/{controller}/rbac.yaml"] = FROM_RULES + granted
    of_provider = rights("provider", FLEET_RULES, account=PROVIDER_ACCOUNT)
    granted = "---\n".join(dump_yaml(each, sort_keys=False) for each in of_provider)
    written["providers/rbac.yaml"] = FROM_PROVIDERS + granted
    return written


def definitions() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for definition in crds():
        names = definition["spec"]["names"]
        folder = "fairway" if names["kind"] in OURS else "ocm"
        yield f"crds/{folder}/{names['plural']}.yaml", definition


def rights(
    controller: str, rules: Iterable[Rule], *, account: Mapping[str, str] = ACCOUNT
) -> Iterator[Mapping[str, Any]]:
    metadata = {"name": f"fairway-{controller}"}
    yield {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [each.document() for each in rules],
    }
    yield {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": metadata["name"]},
        "subjects": [dict(account)],
    }


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
