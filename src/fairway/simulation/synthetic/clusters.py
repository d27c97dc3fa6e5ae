"""Generate realistic clusters, the same ones for the same seed, for simulations, benchmarks and demonstrations.

The properties that matter for scheduling are realistic: sizes correlate with labels, unavailable clusters have taints,
scores follow load, and some scores are expired or missing. A larger fleet starts with the clusters of a smaller one of
the same seed.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fairway.simulation.synthetic.placements import placements as placement_documents
from fairway.simulation.synthetic.scores import HOSTED, USAGE, Host, usage_scores
from kubewire.api.meta import format_time

Document = dict[str, Any]

BASE_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
DEFAULT_PLACEMENTS: Final = 12
NAMESPACES: Final = ("apps", "batch", "edge", "hosting", "ml")

_GROUP: Final = "cluster.open-cluster-management.io"
_SET_LABEL: Final = f"{_GROUP}/clusterset"
_FEATURE: Final = "feature.open-cluster-management.io/addon-"

# provider, product, vendor label, weight, regions
_PROVIDERS: Final[tuple[tuple[str, str, str, int, tuple[str, ...]], ...]] = (
    (
        "aws",
        "OpenShift",
        "OpenShift",
        26,
        ("us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-south-1"),
    ),
    ("aws", "EKS", "EKS", 16, ("us-east-1", "us-east-2", "eu-west-1", "ap-northeast-1")),
    ("azure", "AKS", "AKS", 16, ("eastus", "westeurope", "northeurope", "southeastasia")),
    ("azure", "OpenShift", "OpenShift", 8, ("eastus", "westeurope", "uksouth")),
    ("gcp", "GKE", "GKE", 14, ("us-central1", "europe-west4", "asia-east1")),
    ("metal", "OpenShift", "OpenShift", 14, ("dc-fra", "dc-iad", "dc-sin")),
    ("edge", "MicroShift", "Other", 6, ("store-north", "store-south", "plant-west")),
)
_PROVIDER_WEIGHTS: Final = tuple(row[3] for row in _PROVIDERS)
_PLATFORMS: Final = {"aws": "AWS", "azure": "Azure", "gcp": "GCP", "metal": "BareMetal", "edge": "None"}
_ENVIRONMENTS: Final = ("prod", "stage", "dev")
_ENVIRONMENT_WEIGHTS: Final = (55, 15, 30)
_TIERS: Final = {"prod": ("gold", "gold", "silver"), "stage": ("silver", "bronze"), "dev": ("bronze",)}
_TEAMS: Final = ("payments", "search", "retail", "platform", "data", "identity", "media", "logistics")
_KUBERNETES: Final = ("v1.29.14", "v1.30.11", "v1.31.7", "v1.31.9", "v1.32.5", "v1.33.2")
_KUBERNETES_WEIGHTS: Final = (8, 14, 22, 22, 22, 12)
_OPENSHIFT: Final = {"29": "4.16.40", "30": "4.17.28", "31": "4.18.14", "32": "4.19.3", "33": "4.20.1"}
_PROVIDER_SUFFIX: Final = {"EKS": "-eks-7f2a1c3", "GKE": "-gke.1240000"}
# vCPUs per node, minimum and maximum of nodes, GiB of memory per vCPU
_SHAPES: Final = ((4, 3, 6, 4), (8, 3, 12, 4), (16, 4, 20, 4), (16, 3, 40, 8), (32, 6, 60, 8), (64, 4, 30, 8))
_SHAPE_WEIGHTS: Final = {
    "prod": (5, 20, 32, 23, 15, 5),
    "stage": (20, 40, 25, 15, 0, 0),
    "dev": (45, 40, 15, 0, 0, 0),
}
_CA_BUNDLE: Final = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t" + "TUlJQzV6Q0NBYytnQXdJQkFnSUJBREFOQmdrcWhraUc5dzBCQVFzRkFE" * 8
)


def generate(
    *, clusters: int, seed: int = 0, placements: int = DEFAULT_PLACEMENTS, now: datetime = BASE_TIME
) -> Iterator[Document]:
    """Yield sets and bindings, then each cluster followed by its scores, then placements.

    Ages, taint times and expiries are relative to `now`.
    """
    if clusters < 0 or placements < 0:
        raise ValueError("a fleet cannot have a negative number of clusters or placements")
    yield from _sets_and_bindings(now)
    # A text as seed is hashed by Random itself, independently of PYTHONHASHSEED.
    rng = random.Random(f"fairway clusters {seed}")
    for number in range(1, clusters + 1):
        cluster = _Cluster(rng, number, now)
        yield cluster.document()
        yield from cluster.scores()
    yield from placement_documents(
        random.Random(f"fairway placements {seed}"), count=placements, namespaces=NAMESPACES
    )


def _sets_and_bindings(now: datetime) -> Iterator[Document]:
    selectors: dict[str, Document] = {
        name: {"selectorType": "ExclusiveClusterSetLabel"}
        for name in ("default", "prod", "dev", "edge", "hosting")
    }
    selectors["gpus"] = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"gpu": "true"}}}
    selectors["global"] = {"selectorType": "LabelSelector", "labelSelector": {}}
    created = format_time(now - timedelta(days=400))
    for name, selector in selectors.items():
        yield {
            "apiVersion": f"{_GROUP}/v1beta2",
            "kind": "ManagedClusterSet",
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"clusterSelector": selector},
        }
    bound = {
        "apps": ("prod", "dev", "default"),
        "batch": ("global",),
        "edge": ("edge",),
        "hosting": ("hosting",),
        "ml": ("gpus",),
    }
    for namespace in NAMESPACES:
        for name in bound[namespace]:
            yield {
                "apiVersion": f"{_GROUP}/v1beta2",
                "kind": "ManagedClusterSetBinding",
                "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
                "spec": {"clusterSet": name},
            }


class _Cluster:
    """The random traits of one cluster, from which its labels, claims, sizes, taints and scores follow."""

    def __init__(self, rng: random.Random, number: int, now: datetime) -> None:
        self.rng = rng
        self.now = now
        chance = rng.random
        self.provider, self.product, self.vendor, _, regions = rng.choices(_PROVIDERS, _PROVIDER_WEIGHTS)[0]
        self.region = rng.choice(regions)
        self.edge = self.provider == "edge"
        self.environment = rng.choices(_ENVIRONMENTS, _ENVIRONMENT_WEIGHTS)[0]
        self.name = f"{self.region}-{self.environment}-{self.provider}-{number:05d}"
        self.uid = _uid(rng)
        self.gpu = not self.edge and chance() < 0.12
        self.hosting = self.product == "OpenShift" and not self.gpu and chance() < 0.12
        self.kubernetes = rng.choices(_KUBERNETES, _KUBERNETES_WEIGHTS)[0]
        self.openshift = _OPENSHIFT[self.kubernetes.split(".")[1]] if self.product == "OpenShift" else ""
        self.size()
        self.load = min(0.98, max(0.03, rng.gauss(0.55 if self.environment == "prod" else 0.35, 0.2)))
        self.host = self.hosting_cluster(share=self.load * chance() * 1.4) if self.hosting else None
        fate = chance()
        self.available = "Unknown" if fate < 0.015 else "False" if fate < 0.02 else "True"
        self.age = timedelta(seconds=int(86400 * (1 + 700 * chance() ** 2)))
        self.maintenance = chance() < 0.02

    def size(self) -> None:
        rng = self.rng
        if self.edge:
            cores, self.nodes, ratio = rng.choice((4, 8, 16)), 1, 4
        else:
            cores, least, most, ratio = rng.choices(_SHAPES, _SHAPE_WEIGHTS[self.environment])[0]
            self.nodes = rng.randint(least, most)
        self.cpu = cores * self.nodes
        # Firmware and kernel reserve some of the memory.
        self.memory = self.cpu * ratio * 1024 * 1024 - self.nodes * rng.randint(180_000, 420_000)
        self.gpus = rng.choice((1, 2, 4, 8)) * max(1, self.nodes // 4) if self.gpu else 0

    def hosting_cluster(self, *, share: float) -> Host:
        """Return a host that uses ``share`` of its capacity for hosted clusters, and set the load accordingly."""
        empty = Host(cpu=self.cpu, memory=self.memory * 1024, pods=250 * self.nodes)
        host = replace(empty, hosted=min(empty.fits, int(empty.fits * share)))
        self.load = 1 - host.free().cpu / self.cpu
        return host

    def document(self) -> Document:
        spec: Document = {
            "hubAcceptsClient": True,
            "leaseDurationSeconds": 60,
            "managedClusterClientConfigs": [
                {"url": f"https://api.{self.name}.example.com:6443", "caBundle": _CA_BUNDLE}
            ],
        }
        taints = self.taints()
        if taints:
            spec["taints"] = taints
        created = format_time(self.now - self.age)
        return {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ManagedCluster",
            "metadata": {
                "name": self.name,
                "uid": self.uid,
                "resourceVersion": str(self.rng.randint(10_000, 90_000_000)),
                "generation": self.rng.randint(1, 9),
                "creationTimestamp": created,
                "finalizers": [
                    f"{_GROUP}/api-resource-cleanup",
                    "managedclusterinfo.finalizers.open-cluster-management.io",
                ],
                "annotations": {
                    "agent.open-cluster-management.io/klusterlet-config": "default",
                    "open-cluster-management/created-via": "other",
                },
                "labels": self.labels(),
            },
            "spec": spec,
            "status": {
                "allocatable": self.allocatable(),
                "capacity": self.capacity(),
                "clusterClaims": self.claims(),
                "conditions": self.conditions(created),
                "version": {"kubernetes": self.kubernetes + _PROVIDER_SUFFIX.get(self.product, "")},
            },
        }

    def labels(self) -> dict[str, str]:
        rng = self.rng
        chance = rng.random
        labels = {
            "cloud": _PLATFORMS[self.provider],
            "clusterID": self.uid,
            "environment": self.environment,
            "name": self.name,
            "region": self.region,
            "team": rng.choice(_TEAMS),
            "tier": rng.choice(_TIERS[self.environment]),
            "vendor": self.vendor,
            "zone": f"{self.region}{rng.choice('abc')}",
            _SET_LABEL: self.cluster_set(),
        }
        if self.gpu:
            labels["gpu"] = "true"
            labels["gpu-model"] = rng.choice(("a100", "h100", "l40s", "t4"))
        if self.openshift:
            labels["openshiftVersion"] = self.openshift
            labels["openshiftVersion-major-minor"] = self.openshift.rsplit(".", 1)[0]
        if self.hosting:
            labels[f"{_FEATURE}hypershift-addon"] = "available"
        healthy = "available" if self.available == "True" else "unreachable"
        labels[f"{_FEATURE}resource-usage-collect"] = healthy
        for addon, share in (
            ("work-manager", 0.95),
            ("application-manager", 0.6),
            ("cert-policy-controller", 0.4),
        ):
            if chance() < share:
                labels[f"{_FEATURE}{addon}"] = healthy
        if chance() < 0.25:
            labels["cost-center"] = f"cc-{rng.randint(100, 140)}"
        return dict(sorted(labels.items()))

    def cluster_set(self) -> str:
        if self.edge:
            return "edge"
        if self.hosting:
            return "hosting"
        return {"prod": "prod", "dev": "dev"}.get(self.environment, "default")

    def claims(self) -> list[Document]:
        claims = {
            "id.k8s.io": self.uid,
            "kubeversion.open-cluster-management.io": self.kubernetes,
            "platform.open-cluster-management.io": _PLATFORMS[self.provider],
            "product.open-cluster-management.io": self.product,
            "region.open-cluster-management.io": self.region,
            "controlplanetopology.openshift.io": "SingleReplica" if self.edge else "HighlyAvailable",
            "schedulable.open-cluster-management.io": "true",
            "architecture.open-cluster-management.io": "arm64" if self.edge else "amd64",
            "nodes.open-cluster-management.io": str(self.nodes),
        }
        if self.openshift:
            claims["version.openshift.io"] = self.openshift
            claims["id.openshift.io"] = self.uid
            claims["infrastructure.openshift.io"] = f'{{"infraName":"{self.name[:20]}-{self.uid[:5]}"}}'
            claims["consoleurl.openshift.io"] = (
                f"https://console-openshift-console.apps.{self.name}.example.com"
            )
            claims["oauthredirecturis.openshift.io"] = f"https://oauth-openshift.apps.{self.name}.example.com"
        if self.host is not None:
            claims |= self.host.claims()
        return [{"name": name, "value": value} for name, value in sorted(claims.items())]

    def taints(self) -> list[Document]:
        rng = self.rng
        taints: list[Document] = []

        def add(key: str, effect: str, value: str = "") -> None:
            taint: Document = {"effect": effect, "key": key}
            taint["timeAdded"] = format_time(self.now - timedelta(seconds=rng.randint(30, 86400)))
            if value:
                taint["value"] = value
            taints.append(taint)

        if self.available != "True":
            add(f"{_GROUP}/{'unreachable' if self.available == 'Unknown' else 'unavailable'}", "NoSelect")
        if self.maintenance:
            add("maintenance", rng.choice(("NoSelect", "NoSelectIfNew", "NoSelectIfNew")), "planned")
        if self.gpu and rng.random() < 0.3:
            add("gpu", rng.choice(("NoSelect", "PreferNoSelect", "PreferNoSelect")), "true")
        return taints

    def capacity(self) -> dict[str, str]:
        capacity = {"cpu": str(self.cpu), "memory": f"{self.memory}Ki", "pods": str(250 * self.nodes)}
        capacity["ephemeral-storage"] = f"{self.nodes * 125_293_548}Ki"
        if self.gpus:
            capacity["nvidia.com/gpu"] = str(self.gpus)
        return capacity

    def allocatable(self) -> dict[str, str]:
        reserved = self.nodes * self.rng.choice((500, 500, 750, 1500))
        allocatable = {"cpu": f"{self.cpu * 1000 - reserved}m", "pods": str(250 * self.nodes)}
        allocatable["memory"] = f"{int(self.memory * (0.93 + 0.04 * self.rng.random()))}Ki"
        allocatable["ephemeral-storage"] = f"{self.nodes * 115_470_533}Ki"
        if self.gpus:
            allocatable["nvidia.com/gpu"] = str(self.gpus)
        return dict(sorted(allocatable.items()))

    def conditions(self, created: str) -> list[Document]:
        messages = {
            "True": ("ManagedClusterAvailable", "Managed cluster is available"),
            "False": (
                "ManagedClusterKubeAPIServerUnavailable",
                "The kube-apiserver is not ok, status code: 500",
            ),
            "Unknown": ("ManagedClusterLeaseUpdateStopped", "Registration agent stopped updating its lease."),
        }
        reason, message = messages[self.available]
        seen = format_time(self.now - timedelta(seconds=self.rng.randint(60, 500_000)))
        return [
            _condition(
                "HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted", "Accepted by hub", created
            ),
            _condition(
                "ManagedClusterJoined", "True", "ManagedClusterJoined", "Managed cluster joined", created
            ),
            _condition("ManagedClusterConditionAvailable", self.available, reason, message, seen),
            _condition(
                "ManagedClusterImportSucceeded", "True", "ManagedClusterImported", "Import succeeded", created
            ),
        ]

    def scores(self) -> Iterator[Document]:
        rng = self.rng
        fate = rng.random()
        if fate >= 0.03:  # the rest have no provider installed
            free = 1 - self.load
            cpu_free = self.cpu * free
            memory_free = self.memory * 1024 * min(1.0, max(0.02, free + rng.gauss(0.05, 0.08)))
            if self.host is not None:
                memory_free = self.host.free().memory
            gpus = int((self.gpus + 1) * rng.random()) if self.gpus else None
            values = usage_scores(cpu=cpu_free, memory=memory_free, gpus=gpus)
            yield self.score(USAGE, values, valid=self.validity(stale=fate < 0.06))
        if self.host is not None:
            # Uses no random number, so that the following clusters stay the same.
            offset = timedelta(seconds=180 if self.available == "True" else -7200)
            yield self.score(HOSTED, self.host.scores(), valid=self.now + offset)
        if rng.random() < 0.04:
            yield self.cluster_score("resourceratiocpu", int(100 * (1 - self.load)))
            yield self.cluster_score("resourceratiomemory", int(100 * rng.random()))

    def validity(self, *, stale: bool) -> datetime:
        seconds = self.rng.randint(20, 300)
        if stale or self.available != "True":
            return self.now - timedelta(seconds=seconds * 40)
        return self.now + timedelta(seconds=seconds)

    def score(self, name: str, values: dict[str, int], *, valid: datetime) -> Document:
        updated = format_time(valid - timedelta(seconds=300))
        status: Document = {
            "conditions": [
                _condition(
                    "AddOnPlacementScoreUpdated",
                    "True",
                    "AddOnPlacementScoreUpdated",
                    "Scores updated",
                    updated,
                )
            ],
            "scores": [{"name": key, "value": value} for key, value in sorted(values.items())],
            "validUntil": format_time(valid),
        }
        return {
            "apiVersion": f"{_GROUP}/v1alpha1",
            "kind": "AddOnPlacementScore",
            "metadata": {"name": name, "namespace": self.name},
            "status": status,
        }

    def cluster_score(self, calculator: str, value: int) -> Document:
        updated = format_time(self.now - timedelta(seconds=self.rng.randint(5, 120)))
        reason = "ManagedClusterScoreUpdated"
        condition = _condition(reason, "True", reason, "ManagedClusterScore updated successfully", updated)
        return {
            "apiVersion": f"{_GROUP}/v1alpha1",
            "kind": "ManagedClusterScore",
            "metadata": {"name": f"{self.name}-{calculator}", "namespace": self.name},
            "status": {"conditions": [{**condition, "lastUpdateTime": updated}], "score": value},
        }


def _condition(kind: str, status: str, reason: str, message: str, since: str) -> Document:
    return {"lastTransitionTime": since, "message": message, "reason": reason, "status": status, "type": kind}


def _uid(rng: random.Random) -> str:
    text = f"{rng.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"
