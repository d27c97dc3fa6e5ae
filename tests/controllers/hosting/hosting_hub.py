"""A fake hub with hosting clusters, their work agents and providers, and the hosting controller, in virtual time."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from clocks import START, LoopClock
from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.api.work import ManifestWork
from fairway.controllers.hosting import HostingController
from fairway.controllers.hosting.hub_access import SECRETS
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.runtime.leadership import ALONE
from fairway.klusterlet.works.feedback import feedback
from fairway.observe.meters import Meters
from fairway.scheduling import Scheduling, Supervisor, load
from fairway.workloads.hosting import HOSTING_KIND
from fairway.workloads.hosting.workload import MOVE_TO, RECOVER_FROM, loss_of
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from kubehub.patches import jsonpatch, mergepatch
from kubewire.api.encoding import encode
from kubewire.api.meta import format_time
from kubewire.client import Forbidden, NotFound, Patch, Recorder
from rigs.fake_hub import (
    Call,
    Document,
    FakeHub,
    Key,
    KillableHub,
    check_identity,
    refused,
    reported_condition,
)

SCORE = "hosted-clusters-score"
AGENT_FINALIZER = "cluster.open-cluster-management.io/manifest-work-cleanup"
NAMESPACE = "team-a"
DEFAULT_SCHEDULING = load(None, kind=HOSTING_KIND, supervisor=Supervisor(clock=time.monotonic))


def wall() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@dataclass
class Events:
    """Takes the place of a recorder."""

    hub: FakeHub
    told: list[tuple[str, str]] = field(default_factory=list)
    """(reason, message)"""

    def event(self, _about: Any, *, reason: str, message: str, **_: Any) -> bool:
        self.told.append((reason, message))
        self.hub.notify()
        return True

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.told]


class HostingHub(KillableHub):
    """Finalizers keep objects, and a changed spec is a new generation."""

    def __init__(self) -> None:
        super().__init__()
        self.hosted: dict[str, dict[str, str]] = {}
        """HostedClusters that exist, by host and name, with the uid of their request."""
        self.others: dict[str, int] = {}
        """Hosted clusters of other owners, by host."""
        self.statuses: dict[str, Document] = {}
        """Statuses of HostedClusters, by name."""
        self.refusing: dict[tuple[str, str], str] = {}
        """What a host reports instead of applying a kind, by host and kind."""
        self.secrets_forbidden = False
        self.gone: set[str] = set()
        """Requests that users deleted."""

    # Rules of a hub

    def answer(self, call: Call, *, author: str = "") -> Any:
        key, old = call.key, self.documents.get(call.key)
        if call.verb == "create":
            generation = {"generation": 1, **call.body["metadata"]}
            call.body = {**call.body, "metadata": generation}
        if self.secrets_forbidden and call.resource is SECRETS:
            raise refused(Forbidden, 403, "Forbidden")
        if call.verb in ("create", "get"):
            return super().answer(call, author=author)
        if old is None:
            raise refused(NotFound, 404, "NotFound")
        if call.verb == "delete":
            check_identity(old, call.preconditions)
            self.remove(key)
            return None
        new = (mergepatch if call.kind is Patch.MERGE else jsonpatch).apply(old, call.body)
        check_identity(old, new["metadata"])
        if call.subresource == "status":
            new = {**old, "status": new["status"]}
        else:
            new = {**new, "status": old.get("status", {})}
        return msgspec.convert(self.write(key, new), call.resource.type)

    def write(self, key: Key, new: Document) -> Document:
        """Replace an object. One that is being deleted ends with its last finalizer."""
        old = self.documents[key]
        meta = dict(new["metadata"])
        if new.get("spec") != old.get("spec"):
            meta["generation"] = old["metadata"].get("generation", 1) + 1
        new = {**new, "metadata": meta}
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.erase(key)
            return new
        self.store(key, new)
        return self.documents[key]

    def remove(self, key: Key) -> None:
        """Delete an object; one with finalizers is only marked."""
        old = self.documents.get(key)
        if old is None:
            return
        if not old["metadata"].get("finalizers"):
            self.erase(key)
        elif not old["metadata"].get("deletionTimestamp"):
            self.write(
                key, {**old, "metadata": {**old["metadata"], "deletionTimestamp": format_time(wall())}}
            )

    # Users

    def host(self, name: str, *, claims: Mapping[str, str] | None = None, available: str = "True") -> None:
        given = {"hostingcluster.hypershift.openshift.io": "true", **(claims or {})}
        document = {
            "kind": "ManagedCluster",
            "metadata": {"name": name},
            "spec": {"hubAcceptsClient": True},
            "status": {
                "conditions": [reported_condition(CONDITION_AVAILABLE, available)],
                "clusterClaims": [{"name": key, "value": value} for key, value in given.items()],
            },
        }
        self.put(MANAGED_CLUSTERS, document)
        self.hosted.setdefault(name, {})

    def lose(self, name: str) -> None:
        """Delete a hosting cluster with its namespace."""
        self.drop(MANAGED_CLUSTERS, name)
        for key in [key for key in self.documents if key[1] == name]:
            self.erase(key)
        self.hosted.pop(name)
        self.others.pop(name, None)

    def mark(self, name: str, available: str) -> None:
        """The hub marks a cluster as available, or not."""
        key = (MANAGED_CLUSTERS.plural, "", name)
        old = self.documents[key]
        condition = reported_condition(CONDITION_AVAILABLE, available, since=format_time(wall()))
        self.write(key, {**old, "status": {**old["status"], "conditions": [condition]}})

    def recover(self, name: str, target: str, *, loss: str = "") -> None:
        """A person approves to recover a request from the loss of its host, by default the recorded one."""
        key = (HOSTED_CLUSTER_REQUESTS.plural, NAMESPACE, name)
        old = self.documents[key]
        annotations = {MOVE_TO: target, RECOVER_FROM: loss or loss_of(self.request(name))}
        self.write(key, {**old, "metadata": {**old["metadata"], "annotations": annotations}})

    def policy(self, name: str = "default", **spec: Any) -> None:
        self.put(HOSTING_POLICIES, {"metadata": {"name": name, "generation": 1}, "spec": spec, "status": {}})

    def ask(self, name: str, *, namespace: str = NAMESPACE, **spec: Any) -> None:
        document = {
            "metadata": {"name": name, "namespace": namespace, "generation": 1},
            "spec": {"hostedCluster": {"spec": {"platform": {"type": "None"}}}, **spec},
            "status": {},
        }
        self.put(HOSTED_CLUSTER_REQUESTS, document, namespace=namespace)

    def withdraw(self, name: str, *, namespace: str = NAMESPACE) -> None:
        self.remove((HOSTED_CLUSTER_REQUESTS.plural, namespace, name))

    def decide(self, name: str, host: str) -> None:
        """A Placement with score debits selects a host, and its user creates the hosted cluster at once."""
        annotations = {SCORE_DEBITS: f"{SCORE}/hostedClustersCount=+1"}
        count = {"type": "AddOn", "addOn": {"resourceName": SCORE, "scoreName": "hostedClustersCount"}}
        ranking = {"configurations": [{"weight": -1, "scoreCoordinate": count}]}
        self.put(
            PLACEMENTS,
            {
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"prioritizerPolicy": ranking},
                "status": {},
            },
            namespace=NAMESPACE,
        )
        meta = {
            "name": f"{name}-decision-1",
            "labels": {PLACEMENT_LABEL: name},
            "creationTimestamp": format_time(wall()),
        }
        status = {"decisions": [{"clusterName": host, "reason": ""}]}
        self.put(PLACEMENT_DECISIONS, {"metadata": meta, "status": status}, namespace=NAMESPACE)
        self.others[host] = self.others.get(host, 0) + 1

    def secret(self, name: str, value: str, *, namespace: str = NAMESPACE, type_: str = "") -> None:
        document = {"metadata": {"name": name}, "type": type_, "data": {"key": value}}
        self.put(SECRETS, document, namespace=namespace)

    def edit(self, name: str, *, namespace: str = NAMESPACE, **spec: Any) -> None:
        """Replace fields of a request's spec."""
        key = (HOSTED_CLUSTER_REQUESTS.plural, namespace, name)
        old = self.documents[key]
        self.write(key, {**old, "spec": {**old["spec"], **spec}})

    def request(self, name: str, *, namespace: str = NAMESPACE) -> HostedClusterRequest:
        return cast("HostedClusterRequest", self.read(HOSTED_CLUSTER_REQUESTS, namespace, name))

    def has(self, name: str) -> bool:
        return (HOSTED_CLUSTER_REQUESTS.plural, NAMESPACE, name) in self.documents

    def phase(self, name: str) -> str:
        return self.request(name).status.phase if self.has(name) else ""

    def place(self, name: str) -> str:
        cluster = self.request(name).status.hostingCluster
        return "" if cluster is None else cluster.name

    def reason(self, name: str, type_: str = "Scheduled") -> str:
        matching = [
            condition for condition in self.request(name).status.conditions if condition.type == type_
        ]
        return matching[0].reason if matching else ""

    def message(self, name: str, type_: str = "Scheduled", *, namespace: str = NAMESPACE) -> str:
        conditions = self.request(name, namespace=namespace).status.conditions
        matching = [condition for condition in conditions if condition.type == type_]
        return matching[0].message if matching else ""

    def works(self) -> list[tuple[str, str]]:
        return sorted(key[1:] for key in self.documents if key[0] == MANIFEST_WORKS.plural)

    # Hosting clusters

    def publish(self, name: str, *, lasts: float = 180, **scores: int) -> None:
        """The provider counts the hosted clusters."""
        values = {"hostedClustersCount": min(100, self.load(name)), **scores}
        status = {
            "scores": [{"name": key, "value": value} for key, value in values.items()],
            "validUntil": format_time(wall() + timedelta(seconds=lasts)),
        }
        document = {"metadata": {"name": SCORE}, "status": status}
        self.put(ADD_ON_PLACEMENT_SCORES, document, namespace=name)

    def load(self, name: str) -> int:
        return len(self.hosted[name]) + self.others.get(name, 0)

    def work(self, *hosts: str) -> None:
        """The work agents apply and delete."""
        for key in [key for key in self.documents if key[0] == MANIFEST_WORKS.plural]:
            host = key[1]
            if host not in self.hosted or (hosts and host not in hosts):
                continue
            document = self.documents[key]
            meta = document["metadata"]
            (manifest,) = [
                manifest
                for manifest in document["spec"]["workload"]["manifests"]
                if manifest["kind"] == "HostedCluster"
            ]
            name = manifest["metadata"]["name"]
            if meta.get("deletionTimestamp"):
                self.hosted[host].pop(name, None)
                self.write(key, {**document, "metadata": {**meta, "finalizers": []}})
                continue
            if (host, "HostedCluster") not in self.refusing:
                self.hosted[host][name] = manifest["metadata"]["labels"]["placement.fairway.dev/request-uid"]
            reports = [
                _report(
                    manifest,
                    meta.get("generation", 1),
                    refused=self.refusing.get((host, manifest["kind"]), ""),
                )
                for manifest in document["spec"]["workload"]["manifests"]
            ]
            reports = [
                {**report, **self._feedback(document, manifest)}
                if report["resourceMeta"]["kind"] == "HostedCluster"
                else report
                for report in reports
            ]
            status = {"resourceStatus": {"manifests": reports}}
            new = {**document, "metadata": {**meta, "finalizers": [AGENT_FINALIZER]}, "status": status}
            if new != document:
                self.write(key, new)

    def _feedback(self, document: Document, manifest: Document) -> Document:
        """Return the values that the work asks for, as a work agent finds them in the object."""
        work = msgspec.convert(document, ManifestWork)
        rules = [rule for config in work.spec.manifestConfigs for rule in config.feedbackRules]
        values, _ = feedback(
            {**manifest, "status": self.statuses.get(manifest["metadata"]["name"], {})}, rules
        )
        return {} if values is None else {"statusFeedback": encode(values)}

    async def live(self, *, every: float = 60.0, applies: float = 1.0) -> None:
        """Run agents and providers."""
        at = 0.0
        while True:
            self.work()
            if at % every < applies:
                for name in self.hosted:
                    self.publish(name, lasts=3 * every)
            await asyncio.sleep(applies)
            at += applies


def _report(manifest: Document, generation: int, *, refused: str) -> Document:
    condition = reported_condition("Applied", "False" if refused else "True")
    if refused:
        condition["message"] = f"Failed to apply manifest: {refused}"
    return {
        "resourceMeta": {
            "ordinal": 0,
            "group": manifest["apiVersion"].rpartition("/")[0],
            "kind": manifest["kind"],
            "resource": f"{manifest['kind'].lower()}s",
            "name": manifest["metadata"]["name"],
            "namespace": manifest["metadata"].get("namespace", ""),
        },
        "conditions": [{**condition, "observedGeneration": generation}],
    }


@asynccontextmanager
async def controlling(
    hub: HostingHub,
    *,
    meters: Meters | None = None,
    scheduling: Scheduling | None = None,
    history: DecisionHistory | None = None,
) -> AsyncIterator[Events]:
    """Run the controller, until the block ends or it is killed."""
    events = Events(hub)
    controller = HostingController(
        hub.client,
        meters=meters or Meters(),
        recorder=cast("Recorder", events),
        scheduling=scheduling or DEFAULT_SCHEDULING,
        history=history,
        clock=LoopClock(),
    )
    controller.watch(hub.informers)
    work = asyncio.create_task(controller.run(ALONE))
    try:
        yield events
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


@asynccontextmanager
async def living(hub: HostingHub, *, every: float = 60.0) -> AsyncIterator[None]:
    """Run agents and providers while the block runs."""
    task = asyncio.create_task(hub.live(every=every))
    try:
        await asyncio.sleep(0)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
