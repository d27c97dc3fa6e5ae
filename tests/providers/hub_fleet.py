"""A part of a hub with clusters of one test, and their published scores."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import msgspec

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore
from kubewire.client import Client, Connection, NotFound, Patch
from kubewire.client.credentials import StoredCredentials
from kubewire.client.rbac import Rule
from rigs.processes import POLL

RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class HubFleet:
    """Names end in ``suffix``, which is unique; all created objects are deleted at the end."""

    def __init__(self, client: Client, *, suffix: str) -> None:
        self.client = client
        self._suffix = suffix
        self._namespaces: list[str] = []
        self._clusters: list[str] = []

    async def __aenter__(self) -> "HubFleet":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._clusters:
            await self.leave(name)
        for name in self._namespaces:
            await self.vacate(name)

    def name(self, short: str) -> str:
        return f"{short}-{self._suffix}"

    async def namespace(self, short: str = "c1") -> str:
        name = self.name(short)
        await self.client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        self._namespaces.append(name)
        return name

    async def vacate(self, namespace: str) -> None:
        try:
            await self.client.request("DELETE", f"/api/v1/namespaces/{namespace}", body={})
        except NotFound:
            return

    async def cluster(self, short: str = "c1", *, labels: dict[str, str] | None = None) -> str:
        """A ManagedCluster with its namespace."""
        name = await self.namespace(short)
        body = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"hubAcceptsClient": True}}
        await self.client.create(MANAGED_CLUSTERS, body)
        self._clusters.append(name)
        return name

    async def leave(self, cluster: str) -> None:
        try:
            await self.client.delete(MANAGED_CLUSTERS, cluster)
        except NotFound:
            return

    async def get(self, cluster: str, resource: str) -> AddOnPlacementScore:
        return await self.client.get(ADD_ON_PLACEMENT_SCORES, resource, namespace=cluster)

    async def raw(self, cluster: str, resource: str) -> dict[str, Any]:
        path = ADD_ON_PLACEMENT_SCORES.path(namespace=cluster, name=resource)
        document: dict[str, Any] = msgspec.json.decode((await self.client.request("GET", path)).body)
        return document

    async def foreign(self, cluster: str, resource: str, *, labels: dict[str, str] | None = None) -> None:
        """A score object of another client."""
        body = {"metadata": {"name": resource, "labels": labels or {}}}
        await self.client.create(ADD_ON_PLACEMENT_SCORES, body, namespace=cluster)
        status = {"scores": [{"name": "theirs", "value": 7}]}
        await self.client.patch(
            ADD_ON_PLACEMENT_SCORES,
            resource,
            {"status": status},
            kind=Patch.MERGE,
            namespace=cluster,
            subresource="status",
        )

    async def delete(self, cluster: str, resource: str) -> None:
        await self.client.delete(ADD_ON_PLACEMENT_SCORES, resource, namespace=cluster)

    async def until_deleted(self, cluster: str, resource: str) -> None:
        """Once it is."""
        while True:
            try:
                await self.get(cluster, resource)
            except NotFound:
                return
            await asyncio.sleep(POLL)

    async def until(
        self, cluster: str, resource: str, holds: Callable[[AddOnPlacementScore], bool]
    ) -> AddOnPlacementScore:
        while True:
            try:
                score = await self.get(cluster, resource)
            except NotFound:
                pass
            else:
                if holds(score):
                    return score
            await asyncio.sleep(POLL)

    async def scored(self, cluster: str, resource: str, **scores: int) -> AddOnPlacementScore:
        """Once the hub has these scores, and no others."""
        return await self.until(cluster, resource, lambda score: values_of(score) == scores)

    async def account(self, namespace: str, rules: Sequence[Rule], *, everywhere: bool = False) -> Connection:
        """A client of the same hub with these rights only."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        await self.client.request("POST", accounts, body={"metadata": {"name": "provider"}})
        role = "ClusterRole" if everywhere else "Role"
        base = f"/apis/{RBAC}/v1" if everywhere else f"/apis/{RBAC}/v1/namespaces/{namespace}"
        name = f"provider-{namespace}"
        listed = [rule.document() for rule in rules]
        await self.client.request(
            "POST", f"{base}/{role.lower()}s", body={"metadata": {"name": name}, "rules": listed}
        )
        await self.client.request(
            "POST",
            f"{base}/{role.lower()}bindings",
            body={
                "metadata": {"name": name},
                "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": "provider", "namespace": namespace}],
            },
        )
        connection = replace(
            self.client.connection,
            credentials=StoredCredentials(token=await self.token(namespace)),
            namespace=namespace,
        )
        async with Client(connection) as client:
            for rule in rules:
                await _granted(client, rule, "" if everywhere else namespace)
        return connection

    async def token(self, namespace: str) -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/provider/token"
        response = await self.client.request("POST", path, body={"spec": {"expirationSeconds": 3600}})
        token: str = msgspec.json.decode(response.body)["status"]["token"]
        return token


def values_of(published: AddOnPlacementScore) -> dict[str, int]:
    return {score.name: score.value for score in published.status.scores}


async def _granted(client: Client, rule: Rule, namespace: str) -> None:
    """Wait until the hub applies the rights: a real one watches its roles."""
    resource, _, subresource = rule.resources[0].partition("/")
    attributes = {
        "group": rule.groups[0],
        "resource": resource,
        "subresource": subresource,
        "verb": rule.verbs[0],
        "namespace": namespace,
    }
    while True:
        body = {"spec": {"resourceAttributes": attributes}}
        answer = msgspec.json.decode((await client.request("POST", REVIEWS, body=body)).body)
        if answer["status"].get("allowed"):
            return
        await asyncio.sleep(POLL)
