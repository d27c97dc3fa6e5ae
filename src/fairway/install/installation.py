"""The objects of an installation, in the order in which a hub accepts them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fairway import __version__
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
    settings,
)
from fairway.controllers.placement import rbac as placement
from fairway.controllers.placement.ocm_detection import NAMESPACE as OCM_NAMESPACE
from fairway.install.dashboards import DASHBOARDS, dashboard_text
from kubewire.client.rbac import Rule
from kubewire.documents.reader import value_of, yaml_documents

Document = dict[str, Any]

NAMESPACE: Final = settings.NAMESPACE
NAME: Final = "fairway"
PART_OF: Final = "app.kubernetes.io/part-of"
OURS: Final = frozenset({"HostedClusterRequest", "HostingPolicy", "MachineMigration", "ManagedClusterScore"})
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
POLICIES: Final[Mapping[str, str]] = {"acceptance": "acceptance-policy", "serving": "readers"}
"""Parts that belong to the rights of a controller."""
_RBAC: Final = "rbac.authorization.k8s.io"


class Mode(StrEnum):
    STANDALONE = "standalone"
    OCM = "ocm"
    SHADOW = "shadow"


_STANDALONE: Final = frozenset({Mode.STANDALONE})
_WRITING: Final = frozenset({Mode.STANDALONE, Mode.OCM})
_SHADOW: Final = frozenset({Mode.SHADOW})


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    mode: Mode = Mode.STANDALONE
    controllers: frozenset[str] | None = None
    """None for the usual ones of the mode."""
    image: str = f"{NAME}:{__version__}"
    namespace: str = NAMESPACE
    replicas: int | None = None
    """None for two, of which one waits; a shadow has no leader, so one is enough."""
    ocm_namespace: str = OCM_NAMESPACE
    crds: bool = True
    monitoring: bool = False
    """Objects of the Prometheus operator."""

    @property
    def runs(self) -> frozenset[str]:
        """The controllers that run."""
        if self.controllers is not None:
            return self.controllers
        return settings.DEFAULT if self.mode is Mode.STANDALONE else frozenset({settings.PLACEMENT})

    @property
    def arguments(self) -> list[str]:
        """The arguments of ``fairway run``."""
        arguments = [f"--controllers={','.join(sorted(self.runs))}"]
        if self.mode is Mode.SHADOW:
            arguments.append("--shadow")
        if self.namespace != NAMESPACE:
            arguments.append(f"--lease-namespace={self.namespace}")
        if self.ocm_namespace != OCM_NAMESPACE:
            arguments.append(f"--ocm-namespace={self.ocm_namespace}")
        return [*arguments, "--log-format=json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Objects that are installed together, and the settings with which they are.

    The conditions are data, so that a Helm chart has the same ones.
    """

    documents: tuple[Document, ...]
    modes: frozenset[Mode] = frozenset(Mode)
    controller: str = ""
    """Installed only with this controller, if any."""
    option: str = ""
    """Installed only with this field of the installation, if any."""

    def is_wanted(self, installation: Installation) -> bool:
        return (
            installation.mode in self.modes
            and (not self.controller or self.controller in installation.runs)
            and (not self.option or bool(getattr(installation, self.option)))
        )


def documents(installation: Installation) -> list[Document]:
    """Return the objects of an installation. Kinds and namespaces come before what needs them."""
    return [
        placed(document, installation)
        for component in components(deployment(installation))
        if component.is_wanted(installation)
        for document in component.documents
        # Pods of the cluster itself, such as those of its network, violate the pod security that Fairway's pods meet.
        if document["kind"] != "Namespace" or not _is_of_kubernetes(installation.namespace)
    ]


def _is_of_kubernetes(namespace: str) -> bool:
    return namespace == "default" or namespace.startswith("kube-")


def components(workload: Document) -> Iterator[Component]:
    """Yield all that can be installed, with this Deployment."""
    # OCM's operator restores its own kinds, so that two would change them in turns.
    for modes, ours in ((_STANDALONE, False), (_WRITING, True)):
        definitions = tuple(
            dict(definition) for definition in crds() if (definition["spec"]["names"]["kind"] in OURS) is ours
        )
        yield Component(documents=definitions, modes=modes, option="crds")
    yield Component(documents=part("account"))
    yield Component(documents=part("roles"), modes=_STANDALONE)
    yield Component(documents=part("leases"))
    for controller in sorted(RIGHTS):
        policy = part(POLICIES[controller]) if controller in POLICIES else ()
        yield Component(
            documents=(*cluster_rights(controller, RIGHTS[controller]), *policy),
            modes={"serving": frozenset(Mode), "shadow": _SHADOW}.get(controller, _WRITING),
            controller=controller if controller in settings.ALL else "",
        )
    yield Component(documents=part("ocm-policy"), modes=frozenset({Mode.OCM}))
    yield Component(documents=(*part("services"), *part("network"), *part("disruption")))
    yield Component(documents=(workload,))
    yield Component(documents=(*part("servicemonitor"), *part("alerts"), _dashboards()), option="monitoring")


def deployment(installation: Installation) -> Document:
    """Return the Deployment, not yet in the namespace of the installation."""
    (workload,) = part("deployment")
    spec = workload["spec"]
    default = 1 if installation.mode is Mode.SHADOW else spec["replicas"]
    spec["replicas"] = default if installation.replicas is None else installation.replicas
    (container,) = spec["template"]["spec"]["containers"]
    container["image"] = installation.image
    container["args"] = installation.arguments
    return workload


def _dashboards() -> Document:
    """Return the dashboards in the form in which Grafana's sidecar reads them."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{NAME}-dashboards",
            "namespace": NAMESPACE,
            "labels": {"grafana_dashboard": "1"},
        },
        "data": {f"{uid}.json": dashboard_text(uid) for uid in DASHBOARDS},
    }


def cluster_rights(
    controller: str, rules: Iterable[Rule], *, account: str = NAME, namespace: str = NAMESPACE
) -> Iterator[Document]:
    """Return the ClusterRole of a controller and its binding to the service account."""
    metadata = {"name": f"{NAME}-{controller}"}
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [rule.document() for rule in rules],
    }
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def part(name: str) -> tuple[Document, ...]:
    """Return the objects of a part; the caller may change them."""
    return tuple(value_of(document) for document in yaml_documents(part_text(name).encode()))


@cache
def part_text(name: str) -> str:
    return files("fairway.install").joinpath("parts", f"{name}.yaml").read_text(encoding="utf-8")


def placed(document: Document, installation: Installation) -> Document:
    """Move a document to the namespace of the installation, and label it as a part of it."""
    moved: Document = _renamed(document, installation)
    if moved["kind"] == "Namespace":
        moved["metadata"]["name"] = installation.namespace
    # ``fairway uninstall`` finds everything by this label, whatever mode and version installed it.
    moved["metadata"].setdefault("labels", {})[PART_OF] = NAME
    return moved


def _renamed(value: Any, installation: Installation) -> Any:
    if isinstance(value, dict):
        return {
            key: _namespace(inner, installation)
            if key in _NAMESPACE_KEYS and isinstance(inner, str)
            else _renamed(inner, installation)
            for key, inner in value.items()
        }
    return [_renamed(inner, installation) for inner in value] if isinstance(value, list) else value


_NAMESPACE_KEYS: Final = frozenset({"namespace", "kubernetes.io/metadata.name"})


def _namespace(name: str, installation: Installation) -> str:
    return {NAMESPACE: installation.namespace, OCM_NAMESPACE: installation.ocm_namespace}.get(name, name)
