"""The manager of an add-on that is built with OCM's addon-framework, as far as other programs see it.

It hashes configurations, and deploys an agent only once the configurations are configured (ConfigCheckEnabled).
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controllers.addons.harness import AddOnHarness, condition
from controllers.running import RunningController
from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANIFEST_WORKS,
)
from fairway.controllers.addons.conditions import CONFIGURED, MANIFEST_APPLIED
from fairway.controllers.addons.names import ADD_ON_LABEL
from kubewire.api.meta import TRUE, find_condition
from kubewire.client import Client, NotFound, Resource
from rigs.waiting import edit

ANNOTATION: Final = "open-cluster-management.io/config-spec-hash"
KIND: Final = {"group": CLUSTER_MANAGEMENT_ADD_ONS.group, "resource": "addondeploymentconfigs"}
MANIFEST: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "agent", "namespace": "x"}}

Document = dict[str, Any]


@dataclass(frozen=True)
class OwnManager:
    harness: AddOnHarness

    @property
    def client(self) -> Client:
        return self.harness.client

    @property
    def work_name(self) -> str:
        return f"addon-{self.harness.name}-deploy-0"

    async def sync(self, *clusters: str) -> bool:
        """Do once what it does for each change; return whether it wrote."""
        wrote = await self._hash_defaults()
        for cluster in clusters:
            try:
                wrote |= await self._sync_add_on(cluster)
            except NotFound:
                continue
        return wrote

    async def settle(self, running: RunningController, *clusters: str) -> None:
        """Until neither it nor the controller has anything left to do."""
        await running.settled()
        while await self.sync(*clusters):
            await running.settled()

    async def report(self, cluster: str, *, available: str = TRUE) -> None:
        """As the work agent of the cluster does."""
        work = await self.client.get(MANIFEST_WORKS, self.work_name, namespace=cluster)
        generation = work.metadata.generation
        states = [
            condition("Applied", generation=generation),
            condition("Available", available, generation=generation),
        ]
        await edit(
            self.client,
            MANIFEST_WORKS,
            self.work_name,
            {"status": {"conditions": states}},
            namespace=cluster,
            subresource="status",
        )

    async def offer(self, **strategy: Any) -> None:
        """Without an AddOnTemplate, and with a default configuration."""
        default = {"name": "default", "namespace": self.harness.namespace}
        spec: Document = {
            "supportedConfigs": [{**KIND, "defaultConfig": default}],
            "installStrategy": self.strategy(**strategy) if strategy else {"type": "Manual"},
        }
        await self.client.create(
            CLUSTER_MANAGEMENT_ADD_ONS, {"metadata": {"name": self.harness.name}, "spec": spec}
        )

    def strategy(self, *, config: str = "", rollout: Document | None = None) -> Document:
        placement: Document = {
            "name": "p",
            "namespace": self.harness.namespace,
            "rolloutStrategy": rollout or {"type": "All"},
        }
        if config:
            placement["configs"] = [self.config(config)]
        return {"type": "Placements", "placements": [placement]}

    async def change(self, **strategy: Any) -> None:
        body = {"spec": {"installStrategy": self.strategy(**strategy)}}
        await edit(self.client, CLUSTER_MANAGEMENT_ADD_ONS, self.harness.name, body)

    def config(self, name: str) -> Document:
        return {**KIND, "name": name, "namespace": self.harness.namespace}

    async def hash_of(self, config: Document) -> str:
        """Of all but kind, metadata and status, as stored."""
        document = await self._stored(ADD_ON_DEPLOYMENT_CONFIGS, config["name"], config["namespace"])
        kept = {
            key: value
            for key, value in document.items()
            if key not in ("apiVersion", "kind", "metadata", "status")
        }
        return hashlib.sha256(json.dumps(kept, separators=(",", ":"), sort_keys=True).encode()).hexdigest()

    async def _stored(self, resource: Resource[Any], name: str, namespace: str | None = None) -> Document:
        answer = await self.client.request("GET", resource.path(name=name, namespace=namespace))
        document: Document = msgspec.json.decode(answer.body)
        return document

    async def _hash_defaults(self) -> bool:
        document = await self._stored(CLUSTER_MANAGEMENT_ADD_ONS, self.harness.name)
        status: Document = document.get("status", {})
        before = json.dumps(status)
        references = list(status.get("defaultconfigReferences", ()))
        for progression in status.get("installProgressions", ()):
            references.extend(progression.get("configReferences", ()))
        for reference in references:
            await self._hash(reference)
        if json.dumps(status) == before:
            return False
        await edit(
            self.client,
            CLUSTER_MANAGEMENT_ADD_ONS,
            self.harness.name,
            {"status": status},
            subresource="status",
        )
        return True

    async def _hash(self, reference: Document) -> None:
        if {"group": reference.get("group", ""), "resource": reference["resource"]} != KIND:
            return
        try:
            reference["desiredConfig"]["specHash"] = await self.hash_of(reference["desiredConfig"])
        except NotFound:
            reference["desiredConfig"]["specHash"] = ""

    async def _sync_add_on(self, cluster: str) -> bool:
        document = await self._stored(MANAGED_CLUSTER_ADD_ONS, self.harness.name, cluster)
        status: Document = document.setdefault("status", {})
        before = json.dumps(status)
        status["supportedConfigs"] = [KIND]
        own = document["spec"].get("configs", [])
        for reference in status.get("configReferences", ()):
            config = reference["desiredConfig"]
            if reference.get("group") != KIND["group"]:
                continue
            named = {**KIND, "name": config["name"], "namespace": config.get("namespace", "")}
            stored = await self._stored(ADD_ON_DEPLOYMENT_CONFIGS, config["name"], config["namespace"])
            reference["lastObservedGeneration"] = stored["metadata"]["generation"]
            if named in own:
                await self._hash(reference)
        deployed = await self._deploy(cluster, status)
        if json.dumps(status) == before:
            return deployed
        await edit(
            self.client,
            MANAGED_CLUSTER_ADD_ONS,
            self.harness.name,
            {"status": status},
            namespace=cluster,
            subresource="status",
        )
        return True

    async def _deploy(self, cluster: str, status: Document) -> bool:
        states: list[Document] = status.setdefault("conditions", [])
        if not any(state["type"] == CONFIGURED and state["status"] == TRUE for state in states):
            return False
        hashes = {
            f"{reference['resource']}.{reference['group']}/{config.get('namespace', '')}/{config['name']}": config.get(
                "specHash", ""
            )
            for reference in status.get("configReferences", ())
            for config in [reference["desiredConfig"]]
        }
        annotations = {ANNOTATION: json.dumps(hashes)} if hashes else {}
        body: Document = {
            "metadata": {
                "name": self.work_name,
                "labels": {ADD_ON_LABEL: self.harness.name},
                "annotations": annotations,
            },
            "spec": {"workload": {"manifests": [MANIFEST]}},
        }
        try:
            work = await self.client.get(MANIFEST_WORKS, self.work_name, namespace=cluster)
        except NotFound:
            await self.client.create(MANIFEST_WORKS, body, namespace=cluster)
            return True
        wrote = dict(work.metadata.annotations) != annotations
        if wrote:
            await edit(self.client, MANIFEST_WORKS, self.work_name, body, namespace=cluster)
        applied = find_condition(work.status.conditions, "Applied")
        if applied is not None and all(state["type"] != MANIFEST_APPLIED for state in states):
            states.append(condition(MANIFEST_APPLIED, applied.status))
        return wrote
