"""The objects of the add-on that runs providers on managed clusters, in the order to write them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairway import __version__
from fairway.api.addon import ADD_ON_GROUP, INSTALL_NAMESPACE

Document = dict[str, Any]

ADD_ONS: Final[Mapping[str, str]] = {"resource-usage": "resource-usage-collect"}
"""Installable add-ons: name of the provider to name of the add-on."""

NAMESPACE: Final = "open-cluster-management-addon"
IMAGE: Final = f"fairway:{__version__}"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
FAIRWAY: Final = "fairway"
PART_OF: Final = "fairway.dev/addon"
"""Label of every object of an add-on; the value is the add-on's name."""
SCORE_LABEL: Final = "fairway.dev/provider"

VARIABLES: Final[Mapping[str, str]] = {
    "PROVIDERS": "",
    "INTERVAL": "60s",
    "VALID_FOR": "",
    "MAXCPUCOUNT": "",
    "MAXMEMCOUNT": "",
    "SCORES": "",
    "SCORE_FLOOR": "",
    "PARITY": "",
    "SCORE_NAME": "",
    "RATIOS": "",
    "LOG_FORMAT": "json",
}
"""Variables of --set and their defaults. With an empty value the agent uses its own default."""
ENVIRONMENT: Final = ("MAXCPUCOUNT", "MAXMEMCOUNT", "SCORES", "SCORE_FLOOR", "PARITY", "SCORE_NAME", "RATIOS")
"""Settings that the agent's providers read from its environment."""

RBAC: Final = "rbac.authorization.k8s.io"
CLUSTER: Final = "cluster.open-cluster-management.io"
GLOBAL: Final = "global"
EVERY_TAINT: Final[Mapping[str, str]] = {"operator": "Exists"}
"""A toleration without a key matches every taint. The agent stays on a tainted cluster, because the scores that it
publishes are what ends the taint: an uninstalled agent could never report that its cluster recovered."""
GRANTED: Final = (
    {
        "kind": "ServiceAccount",
        "name": "addon-manager-controller-sa",
        "namespace": "open-cluster-management-hub",
    },
    {"kind": "ServiceAccount", "name": "fairway", "namespace": "fairway-system"},
)
"""Service accounts that may bind the agents' role: OCM's addon-manager and Fairway's controllers."""

READERS: Final = ("health", "hosted-clusters", "resource-usage")
"""Built-in providers that read the cluster they run on."""
HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 8080

_READ: Final = ["get", "list", "watch"]
_PLACEMENT: Final = re.compile(r"([a-z0-9][-a-z0-9]{0,62})/([a-z0-9][-.a-z0-9]{0,252})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``placement`` is an existing one; otherwise one is created for the clusters that ``selector`` selects."""

    provider: str
    namespace: str = NAMESPACE
    image: str = IMAGE
    selector: Document | None = None
    placement: tuple[str, str] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    managed_cluster_scores: bool = False

    @property
    def name(self) -> str:
        return ADD_ONS[self.provider]

    @property
    def agent(self) -> str:
        return agent_name(self.name)

    @property
    def role(self) -> str:
        return f"open-cluster-management:{self.name}:agent"

    @property
    def placement_key(self) -> tuple[str, str]:
        return self.placement or (self.namespace, self.name)


def agent_name(add_on: str) -> str:
    """Return the name of an add-on's agent and of its ClusterRole on a managed cluster."""
    return f"{add_on}-agent"


def parse_placement(text: str) -> tuple[str, str] | None:
    """Parse NAMESPACE/NAME; None if it is not one."""
    match = _PLACEMENT.fullmatch(text)
    return None if match is None else (match[1], match[2])


def documents(plan: Plan) -> Iterator[Document]:
    yield _object("v1", "Namespace", plan.namespace, plan)
    if plan.placement is None:
        yield _binding_of_set(plan)
        yield _placement(plan)
    yield from _roles(plan)
    yield _template(plan)
    yield _deployment_config(plan)
    yield _cluster_management_add_on(plan)


def _object(version: str, kind: str, name: str, plan: Plan, **more: Any) -> Document:
    namespace = more.pop("namespace", None)
    metadata: Document = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {MANAGED_BY: FAIRWAY, PART_OF: plan.name}
    if annotations := more.pop("annotations", None):
        metadata["annotations"] = annotations
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _binding_of_set(plan: Plan) -> Document:
    return _object(
        f"{CLUSTER}/v1beta2",
        "ManagedClusterSetBinding",
        GLOBAL,
        plan,
        namespace=plan.namespace,
        spec={"clusterSet": GLOBAL},
    )


def _placement(plan: Plan) -> Document:
    spec: Document = {"clusterSets": [GLOBAL], "tolerations": [dict(EVERY_TAINT)]}
    if plan.selector is not None:
        spec["predicates"] = [{"requiredClusterSelector": {"labelSelector": plan.selector}}]
    return _object(f"{CLUSTER}/v1beta1", "Placement", plan.name, plan, namespace=plan.namespace, spec=spec)


def _roles(plan: Plan) -> Iterator[Document]:
    """Role of an agent in its cluster's namespace, and the permission to bind it."""
    from fairway.providers.rbac import RAW_RULES

    scores = "addonplacementscores"
    rules: list[Document] = [
        {"apiGroups": [CLUSTER], "resources": [scores], "verbs": [*_READ, "create", "delete"]},
        {"apiGroups": [CLUSTER], "resources": [f"{scores}/status"], "verbs": ["get", "patch", "update"]},
    ]
    if plan.managed_cluster_scores:
        rules += [raw_rule.document() for raw_rule in RAW_RULES]
    yield _object(f"{RBAC}/v1", "ClusterRole", plan.role, plan, rules=rules)
    binder = f"open-cluster-management:{plan.name}:bind-agent"
    rule = {
        "apiGroups": [RBAC],
        "resources": ["clusterroles"],
        "resourceNames": [plan.role],
        "verbs": ["bind"],
    }
    yield _object(f"{RBAC}/v1", "ClusterRole", binder, plan, rules=[rule])
    yield _object(
        f"{RBAC}/v1",
        "ClusterRoleBinding",
        binder,
        plan,
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": binder},
        subjects=[dict(subject) for subject in GRANTED],
    )


def _template(plan: Plan) -> Document:
    registration = {
        "type": "KubeClient",
        "kubeClient": {
            "hubPermissions": [{"type": "CurrentCluster", "currentCluster": {"clusterRoleName": plan.role}}]
        },
    }
    return _object(
        f"{ADD_ON_GROUP}/v1alpha1",
        "AddOnTemplate",
        plan.name,
        plan,
        spec={
            "addonName": plan.name,
            "agentSpec": {"workload": {"manifests": list(_manifests(plan))}},
            "registration": [registration],
        },
    )


def _manifests(plan: Plan) -> Iterator[Document]:
    """Objects on the managed cluster."""
    account = f"{plan.agent}-sa"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": INSTALL_NAMESPACE}

    def manifest(
        version: str, kind: str, name: str, *, cluster_scoped: bool = False, **more: Any
    ) -> Document:
        metadata: Document = {"name": name, "labels": {MANAGED_BY: FAIRWAY, PART_OF: plan.name}}
        if not cluster_scoped:
            metadata["namespace"] = INSTALL_NAMESPACE
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}

    def binding(kind: str, *, cluster_scoped: bool) -> Document:
        to = kind.removesuffix("Binding")
        reference = {"apiGroup": RBAC, "kind": to, "name": plan.agent}
        return manifest(
            f"{RBAC}/v1",
            kind,
            plan.agent,
            cluster_scoped=cluster_scoped,
            roleRef=reference,
            subjects=[dict(subject)],
        )

    yield manifest("v1", "ServiceAccount", account)
    yield manifest(f"{RBAC}/v1", "ClusterRole", plan.agent, cluster_scoped=True, rules=_reader_rules(plan))
    yield binding("ClusterRoleBinding", cluster_scoped=True)
    # RBAC cannot restrict create by resource name.
    leases: Document = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    lease_rules = [
        {**leases, "verbs": ["create"]},
        {**leases, "resourceNames": [plan.name], "verbs": ["get", "patch", "update"]},
    ]
    yield manifest(f"{RBAC}/v1", "Role", plan.agent, rules=lease_rules)
    yield binding("RoleBinding", cluster_scoped=False)
    yield manifest("apps/v1", "Deployment", plan.agent, spec=_deployment(plan, account))


def _reader_rules(plan: Plan) -> list[Document]:
    """Rules that the built-in providers need on the managed cluster. Custom providers bring their own role."""
    from fairway.providers import health, hosted, usage

    rules = {reader: module.RULES for reader, module in zip(READERS, (health, hosted, usage), strict=True)}
    rules[hosted.NAME] += hosted.owned_rules(plan.agent)
    named = plan.variables.get("PROVIDERS") or plan.provider
    wanted = [part.strip() for part in named.split(",")]
    providers: list[Document] = []
    for rule in (rule for name in wanted for rule in rules.get(name, ())):
        written = rule.document()
        if written not in providers:
            providers.append(written)
    return providers


def _deployment(plan: Plan, account: str) -> Document:
    labels = {"app.kubernetes.io/name": plan.agent}
    return {
        "replicas": 1,
        # Two agents at a time would write the same scores.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": {**labels, MANAGED_BY: FAIRWAY}},
            "spec": {
                "serviceAccountName": account,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "runAsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container(plan)],
                "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
            },
        },
    }


def container(plan: Plan) -> Document:
    def probe(path: str, **more: int) -> Document:
        return {"httpGet": {"path": path, "port": "health"}, **more}

    return {
        "name": "agent",
        "image": plan.image,
        "command": ["fairway", "agent", "run"],
        "args": [
            "--hub-kubeconfig={{HUB_KUBECONFIG}}",
            "--cluster-name={{CLUSTER_NAME}}",
            f"--addon-name={plan.name}",
            "--addon-namespace={{INSTALL_NAMESPACE}}",
            "--providers={{PROVIDERS}}",
            "--interval={{INTERVAL}}",
            "--valid-for={{VALID_FOR}}",
            f"--health-address=:{HEALTH_PORT}",
            f"--metrics-address=:{METRICS_PORT}",
            "--log-format={{LOG_FORMAT}}",
            *(["--managed-cluster-scores"] if plan.managed_cluster_scores else []),
        ],
        "env": [{"name": name, "value": f"{{{{{name}}}}}"} for name in ENVIRONMENT],
        "ports": [
            {"name": "health", "containerPort": HEALTH_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "livenessProbe": probe("/livez", periodSeconds=10, failureThreshold=6),
        # Ready means that the scores are on the hub and valid: what OCM takes for a healthy add-on.
        "readinessProbe": probe("/readyz", periodSeconds=5),
        "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def _deployment_config(plan: Plan) -> Document:
    values = {**VARIABLES, "PROVIDERS": plan.provider, **plan.variables}
    if plan.managed_cluster_scores and not values["PARITY"] and not values["RATIOS"]:
        values["RATIOS"] = "true"  # calculators that placements refer to by name
    return _object(
        f"{ADD_ON_GROUP}/v1alpha1",
        "AddOnDeploymentConfig",
        plan.name,
        plan,
        namespace=plan.namespace,
        spec={
            "agentInstallNamespace": INSTALL_NAMESPACE,
            "customizedVariables": [{"name": name, "value": value} for name, value in values.items()],
        },
    )


def _cluster_management_add_on(plan: Plan) -> Document:
    namespace, placement = plan.placement_key
    return _object(
        f"{ADD_ON_GROUP}/v1alpha1",
        "ClusterManagementAddOn",
        plan.name,
        plan,
        annotations={"addon.open-cluster-management.io/lifecycle": "addon-manager"},
        spec={
            "addOnMeta": {
                "displayName": plan.name,
                "description": "Publishes free resources of a cluster as scores for placements.",
            },
            "supportedConfigs": [
                {"group": ADD_ON_GROUP, "resource": "addontemplates", "defaultConfig": {"name": plan.name}},
                {
                    "group": ADD_ON_GROUP,
                    "resource": "addondeploymentconfigs",
                    "defaultConfig": {"name": plan.name, "namespace": plan.namespace},
                },
            ],
            "installStrategy": {
                "type": "Placements",
                "placements": [
                    {"namespace": namespace, "name": placement, "rolloutStrategy": {"type": "All"}}
                ],
            },
        },
    )
