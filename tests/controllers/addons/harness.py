"""A hub with add-ons on it, and what the agents of a cluster would do there."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controllers.running import MARK
from fairway.api.addon import ManagedClusterAddOn
from fairway.api.cluster import CONDITION_ACCEPTED
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.api.work import ManifestWork
from fairway.controllers.addons.names import deploy_work
from fairway.controllers.kinds import CLUSTER_ROLES
from kubewire.api.meta import find_condition
from kubewire.client import Client, NotFound, Resource
from rigs.cleanup import delete_all
from rigs.waiting import edit, fresh, until

ROLE = "open-cluster-management:resource-usage-collect:agent"
NOW = "2031-05-05T12:00:00Z"
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "agent", "namespace": "open-cluster-management-agent-addon"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {
                "containers": [
                    {"name": "agent", "image": "registry.example/a:1", "args": ["{{CLUSTER_NAME}}"]}
                ]
            },
        },
    },
}
READY = {"Replicas": 1, "ReadyReplicas": 1}


def condition(kind: str, status: str = "True", *, message: str = "", generation: int = 0) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": "Because",
        "message": message,
        "lastTransitionTime": NOW,
        "observedGeneration": generation,
    }


def field_value(value: int | str) -> dict[str, Any]:
    return (
        {"type": "Integer", "integer": value}
        if isinstance(value, int)
        else {"type": "String", "string": value}
    )


def found_in(add_on: ManagedClusterAddOn, kind: str) -> tuple[str, str, str] | None:
    condition = find_condition(add_on.status.conditions, kind)
    return None if condition is None else (condition.status, condition.reason, condition.message)


@dataclass(frozen=True)
class AddOnHarness:
    """One add-on with its objects, under unique names on the shared hub."""

    client: Client
    name: str
    namespace: str

    async def role(self) -> None:
        body = {"metadata": {"name": ROLE}, "rules": []}
        try:
            await self.client.get(CLUSTER_ROLES, ROLE)
        except NotFound:
            await self.client.create(CLUSTER_ROLES, body)

    async def cluster(self, **metadata: Any) -> str:
        """Accepted, with its namespace."""
        name = fresh("c")
        await self.client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        body = {"metadata": {"name": name, "labels": MARK, **metadata}, "spec": {"hubAcceptsClient": True}}
        await self.client.create(MANAGED_CLUSTERS, body)
        await self.accept(name)
        return name

    async def accept(self, cluster: str, *besides: dict[str, Any]) -> None:
        """As the controller of acceptance does it; with conditions of others."""
        status = {"status": {"conditions": [condition(CONDITION_ACCEPTED), *besides]}}
        await edit(self.client, MANAGED_CLUSTERS, cluster, status, subresource="status")

    async def template(
        self, *manifests: dict[str, Any], name: str = "", role: str = ROLE, registration: Any = None
    ) -> None:
        usual = {
            "type": "KubeClient",
            "kubeClient": {
                "hubPermissions": [{"type": "CurrentCluster", "currentCluster": {"clusterRoleName": role}}]
            },
        }
        spec = {
            "addonName": self.name,
            "agentSpec": {"workload": {"manifests": list(manifests or (DEPLOYMENT,))}},
            "registration": [usual] if registration is None else registration,
        }
        await self.client.create(ADD_ON_TEMPLATES, {"metadata": {"name": name or self.name}, "spec": spec})

    async def config(self, name: str, **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": spec}
        await self.client.create(ADD_ON_DEPLOYMENT_CONFIGS, body, namespace=self.namespace)

    async def offer(
        self,
        *placements: str,
        template: str | None = None,
        configs: Mapping[str, list[dict[str, Any]]] | None = None,
        annotations: Mapping[str, str] | None = None,
        rollouts: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        group = CLUSTER_MANAGEMENT_ADD_ONS.group
        default = {"name": self.name if template is None else template}
        templates: dict[str, Any] = {"group": group, "resource": "addontemplates"}
        if default["name"]:
            templates["defaultConfig"] = default
        strategy: dict[str, Any] = {"type": "Manual"}
        if placements:
            strategy = {
                "type": "Placements",
                "placements": [
                    {
                        "name": placement,
                        "namespace": self.namespace,
                        "configs": (configs or {}).get(placement, []),
                        "rolloutStrategy": (rollouts or {}).get(placement, {"type": "All"}),
                    }
                    for placement in placements
                ],
            }
        spec = {
            "supportedConfigs": [templates, {"group": group, "resource": "addondeploymentconfigs"}],
            "installStrategy": strategy,
        }
        body = {"metadata": {"name": self.name, "annotations": dict(annotations or {})}, "spec": spec}
        await self.client.create(CLUSTER_MANAGEMENT_ADD_ONS, body)

    async def place(self, name: str, *clusters: str) -> None:
        """A Placement with a decision."""
        body = {"metadata": {"name": name}, "spec": {}}
        await self.client.create(PLACEMENTS, body, namespace=self.namespace)
        page = {"metadata": {"name": f"{name}-decision-1", "labels": {PLACEMENT_LABEL: name}}}
        await self.client.create(PLACEMENT_DECISIONS, page, namespace=self.namespace)
        await self.choose(name, *clusters)

    async def choose(self, name: str, *clusters: str) -> None:
        decisions = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
        await edit(
            self.client,
            PLACEMENT_DECISIONS,
            f"{name}-decision-1",
            {"status": {"decisions": decisions}},
            namespace=self.namespace,
            subresource="status",
        )

    async def enable(self, cluster: str, **spec: Any) -> ManagedClusterAddOn:
        """As a user does it by hand."""
        body = {"metadata": {"name": self.name}, "spec": spec}
        return await self.client.create(MANAGED_CLUSTER_ADD_ONS, body, namespace=cluster)

    async def work(self, cluster: str, *, name: str = "") -> ManifestWork:
        return await until(
            self.client, MANIFEST_WORKS, name or deploy_work(self.name), lambda _: True, namespace=cluster
        )

    async def answer(
        self,
        work: ManifestWork,
        values: Mapping[str, int | str],
        *,
        applied: str = "True",
        available: str = "True",
        message: str = "",
    ) -> None:
        """As the work agent of the cluster does it, for the first manifest."""
        manifest = work.spec.workload.manifests[0]
        group = manifest["apiVersion"].rpartition("/")[0]
        feedback = [{"name": name, "fieldValue": field_value(value)} for name, value in values.items()]
        meta = work.metadata
        status = {
            "conditions": [
                condition("Applied", applied, message=message, generation=meta.generation),
                condition("Available", available, message=message, generation=meta.generation),
            ],
            "resourceStatus": {
                "manifests": [
                    {
                        "resourceMeta": {
                            "ordinal": 0,
                            "group": group,
                            "version": "v1",
                            "kind": manifest["kind"],
                            "resource": f"{manifest['kind'].lower()}s",
                            "namespace": manifest["metadata"].get("namespace", ""),
                            "name": manifest["metadata"]["name"],
                        },
                        "statusFeedback": {"values": feedback},
                        "conditions": [condition("Applied", applied, message=message)],
                    }
                ]
            },
        }
        await edit(
            self.client,
            MANIFEST_WORKS,
            meta.name,
            {"status": status},
            namespace=meta.namespace,
            subresource="status",
        )

    async def awaited(self, cluster: str, kind: str, status: str, reason: str) -> ManagedClusterAddOn:
        def is_as_wanted(add_on: ManagedClusterAddOn) -> bool:
            condition = found_in(add_on, kind)
            return condition is not None and condition[:2] == (status, reason)

        return await until(self.client, MANAGED_CLUSTER_ADD_ONS, self.name, is_as_wanted, namespace=cluster)

    async def clear(self) -> None:
        await delete_all(self.client, PLACEMENTS, namespace=self.namespace)
        await delete_all(self.client, PLACEMENT_DECISIONS, namespace=self.namespace)
        everywhere: tuple[Resource[Any], ...] = (CLUSTER_MANAGEMENT_ADD_ONS, ADD_ON_TEMPLATES)
        for resource in everywhere:
            for obj in (await self.client.list(resource)).items:
                if obj.metadata.name.startswith(self.name):
                    await self.client.delete(resource, obj.metadata.name)
        for add_on in (await self.client.list(MANAGED_CLUSTER_ADD_ONS)).items:
            if add_on.metadata.name == self.name:
                if add_on.metadata.finalizers:
                    await edit(
                        self.client,
                        MANAGED_CLUSTER_ADD_ONS,
                        self.name,
                        {"metadata": {"finalizers": None}},
                        namespace=add_on.metadata.namespace,
                    )
                try:
                    await self.client.delete(
                        MANAGED_CLUSTER_ADD_ONS, self.name, namespace=add_on.metadata.namespace
                    )
                except NotFound:
                    continue


async def versions(client: Client, *resources: Resource[Any]) -> dict[tuple[str, str, str], str]:
    """Wait until another watch has delivered the write."""
    listings = await asyncio.gather(*(client.list(resource) for resource in resources))
    return {
        (resource.plural, item.metadata.namespace, item.metadata.name): item.metadata.resourceVersion
        for resource, listing in zip(resources, listings, strict=True)
        for item in listing.items
    }
