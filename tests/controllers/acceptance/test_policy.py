"""The admission policy that replaces OCM's webhook."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.hubs import HubUnderTest
from controllers.running import MARK, limited
from controllers.settling import DEADLINE
from fairway.api import GROUP
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.clustersets import RULES as SETS
from kubewire.client import AlreadyExists, Client, Connection, Forbidden
from kubewire.client.credentials import Impersonation
from kubewire.client.rbac import Rule
from rigs.processes import POLL
from rigs.waiting import edit, fresh

POLICY = Path(__file__).parents[3] / "deploy/controllers/acceptance/policy.yaml"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SET = "cluster.open-cluster-management.io/clusterset"
JOINS = Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("create", "get", "patch"))

PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


@pytest.fixture
async def joining(hub: HubUnderTest, client: Client) -> AsyncIterator[Connection]:
    """A user who may create and update clusters, on a hub that enforces the policy."""
    paths = []
    for document in yaml.safe_load_all(POLICY.read_text(encoding="utf-8")):
        plural = PLURALS[document["kind"]]
        with suppress(AlreadyExists):  # the embedded hub creates the policy itself
            await client.request("POST", f"{ADMISSION}/{plural}", body=document)
            paths.append(f"{ADMISSION}/{plural}/{document['metadata']['name']}")
    try:
        connection = await limited(client, hub.administrator, (JOINS,))
        async with Client(connection) as probe, asyncio.timeout(DEADLINE):
            while True:
                try:
                    await probe.create(MANAGED_CLUSTERS, body(fresh("c"), accepted=True), dry_run=True)
                except Forbidden as refused:
                    if "managedclusters/accept" in refused.message:
                        break
                    raise
                await asyncio.sleep(POLL)
        yield connection
    finally:
        for path in paths:
            await client.request("DELETE", path)


def body(name: str, *, accepted: bool = False, member_of: str = "") -> dict[str, Any]:
    labels = {**MARK, SET: member_of} if member_of else dict(MARK)
    return {"metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": accepted}}


async def test_joining_cluster_cannot_accept_itself_or_choose_its_set(
    hub: HubUnderTest, client: Client, joining: Connection
) -> None:
    name = fresh("c")
    async with Client(joining) as cluster:
        for wrong in (body(name, accepted=True), body(name, member_of="prod")):
            with pytest.raises(Forbidden):
                await cluster.create(MANAGED_CLUSTERS, wrong)
        await cluster.create(MANAGED_CLUSTERS, body(name))
        await edit(cluster, MANAGED_CLUSTERS, name, {"metadata": {"labels": {SET: "default"}}})
        for change in ({"spec": {"hubAcceptsClient": True}}, {"metadata": {"labels": {SET: "prod"}}}):
            with pytest.raises(Forbidden):
                await edit(cluster, MANAGED_CLUSTERS, name, change)
        await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": True}})
        await edit(client, MANAGED_CLUSTERS, name, {"metadata": {"labels": {SET: "prod"}}})
        # Unchanged values are accepted from every user, and so is withdrawing the acceptance.
        await edit(cluster, MANAGED_CLUSTERS, name, {"metadata": {"labels": {"colour": "red"}}})
        with pytest.raises(Forbidden):
            await edit(cluster, MANAGED_CLUSTERS, name, {"metadata": {"labels": {SET: None}}})
        await edit(cluster, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": False}})


async def test_cluster_administrator_may_accept_and_choose_the_set(
    hub: HubUnderTest, client: Client, joining: Connection
) -> None:
    rights = (
        JOINS,
        Rule(
            groups=("register.open-cluster-management.io",),
            resources=("managedclusters/accept",),
            verbs=("update",),
        ),
        Rule(groups=(GROUP,), resources=("managedclustersets/join",), verbs=("create",), names=("prod",)),
    )
    allowed = await limited(client, replace(hub.administrator, impersonation=Impersonation()), rights)
    async with Client(allowed) as administrator:
        await administrator.create(MANAGED_CLUSTERS, body(fresh("c"), accepted=True, member_of="prod"))
        with pytest.raises(Forbidden):
            await administrator.create(MANAGED_CLUSTERS, body(fresh("c"), member_of="other"))
    assert all("managedclustersets/join" not in rule.resources for rule in SETS)  # nor need it
