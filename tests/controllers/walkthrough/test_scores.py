"""Extending the scheduler by scores of one's own, as OCM's site explains it, line by line."""

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

from controllers.settling import DEADLINE, settled
from controllers.walkthrough.conftest import Terminal
from fairway.controllers.manager import Manager
from kubewire.api.meta import format_time
from kubewire.client import Client, Informer
from kubewire.client.events import EVENTS

DECISION = "placementdecision/placement1-decision-1"
PLACEMENT = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata:
  name: placement1
  namespace: default
spec:
  numberOfClusters: 1
  clusterSets:
    - default
  prioritizerPolicy:
    mode: Exact
    configurations:
      - scoreCoordinate:
          type: AddOn
          addOn:
            resourceName: resource-usage-score
            scoreName: cpuAvailable
        weight: 1
"""


async def waits(terminal: Terminal, what: str) -> None:
    """By default it would give up after half a minute."""
    await terminal(f"kubectl wait {what} --timeout={DEADLINE:.0f}s")


async def joins(terminal: Terminal, name: str) -> None:
    """Accept a cluster and report it available."""
    cluster = {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name},
        "spec": {"hubAcceptsClient": True},
    }
    await terminal("kubectl apply -f -", given=json.dumps(cluster))
    await waits(terminal, f"managedcluster/{name} --for=condition=HubAcceptedManagedCluster")
    until_event = [
        {
            "op": "add",
            "path": "/status/conditions/-",
            "value": {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "",
                "lastTransitionTime": format_time(datetime.now(UTC)),
            },
        }
        for kind in ("ManagedClusterJoined", "ManagedClusterConditionAvailable")
    ]
    amounts = {"cpu": "24", "memory": "49265496Ki"}
    until_event += [
        {"op": "add", "path": "/status/allocatable", "value": amounts},
        {"op": "add", "path": "/status/capacity", "value": amounts},
        {"op": "add", "path": "/status/version", "value": {"kubernetes": "v1.23.4"}},
    ]
    await terminal(
        f"kubectl patch managedcluster {name} --subresource=status --type=json --patch-file=/dev/stdin",
        given=json.dumps(until_event),
    )


async def publishes(
    terminal: Terminal, cluster: str, *, valid_until: str | None = None, **scores: int
) -> None:
    """The add-on's agent."""
    score = {
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
        "kind": "AddOnPlacementScore",
        "metadata": {"name": "resource-usage-score", "namespace": cluster},
    }
    status = {
        "scores": [{"name": name, "value": value} for name, value in scores.items()],
        "validUntil": valid_until,
    }
    await waits(terminal, f"--for=create namespace/{cluster}")
    await terminal("kubectl apply -f -", given=json.dumps(score))
    await terminal(
        f"kubectl patch addonplacementscore resource-usage-score -n {cluster} --subresource=status --type=merge "
        "--patch-file=/dev/stdin",
        given=json.dumps({"status": status}),
    )


async def moved(terminal: Terminal, cluster: str) -> None:
    await waits(terminal, f"{DECISION} --for=jsonpath='{{.status.decisions[0].clusterName}}'={cluster}")


async def until_event(client: Client, note: str) -> None:
    """Until the hub has the event."""
    async with (
        asyncio.timeout(DEADLINE),
        Informer(client, EVENTS, namespace="default") as events,
        aclosing(events.changes()) as changes,
    ):
        async for _ in changes:
            if any(note in written.note for written in events.store.values()):
                return


async def described(terminal: Terminal) -> list[tuple[str, str, str]]:
    """Type, reason and message of the events that are shown."""
    text = await terminal("kubectl describe placement -n default placement1")
    head, _, table = text.partition("\nEvents:\n")
    lines = table.splitlines()
    assert lines[0].split() == ["Type", "Reason", "Age", "From", "Message"]
    at = lines[0].index("Message")
    assert {line.split()[-len(line[at:].split()) - 1] for line in lines[2:]} == {"placement-controller"}
    assert "Name:         placement1" in head
    return [(line.split()[0], line.split()[1], line[at:].strip()) for line in lines[2:]]


async def test_ocm_tutorial_on_extending_scheduling(
    terminal: Terminal, client: Client, everything: Manager
) -> None:
    # Two clusters, and the set they are in by default.
    await joins(terminal, "cluster1")
    await joins(terminal, "cluster2")
    for name in ("cluster1", "cluster2"):
        await waits(
            terminal,
            f"managedcluster/{name} "
            "--for=jsonpath='{.metadata.labels.cluster\\.open-cluster-management\\.io/clusterset}'=default",
        )
    await waits(
        terminal,
        "managedclusterset/default "
        "--for=jsonpath='{.status.conditions[0].message}'='2 ManagedClusters selected'",
    )
    assert [line.split() for line in (await terminal("fairway get clusters")).splitlines()] == [
        ["NAME", "ACCEPTED", "AVAILABLE", "CLUSTERSET", "CPU", "MEMORY", "KUBERNETES", "VERSION"],
        ["cluster1", "true", "True", "default", "24", "47", "GiB", "v1.23.4"],
        ["cluster2", "true", "True", "default", "24", "47", "GiB", "v1.23.4"],
    ]
    shown = (await terminal("kubectl get managedclusters")).splitlines()
    assert shown[0].split() == [
        "NAME",
        "HUB",
        "ACCEPTED",
        "MANAGED",
        "CLUSTER",
        "URLS",
        "JOINED",
        "AVAILABLE",
        "AGE",
    ]
    assert [line.split()[:4] for line in shown[1:]] == [
        ["cluster1", "true", "True", "True"],
        ["cluster2", "true", "True", "True"],
    ]

    # The set is bound to the namespace default.
    await terminal("fairway clusterset bind default --namespace default")
    await waits(terminal, "managedclustersetbinding/default --for=condition=Bound")
    sets = (await terminal("fairway get clustersets")).splitlines()
    assert sets[0].split()[:4] == ["NAME", "BOUND", "NAMESPACES", "STATUS"]
    assert ["default", "default", "2", "ManagedClusters", "selected"] in [line.split()[:5] for line in sets]

    # The add-on publishes scores.
    for name in ("cluster1", "cluster2"):
        await publishes(terminal, name, cpuAvailable=12, memAvailable=4)
    scores = (await terminal("kubectl get addonplacementscore -A")).splitlines()
    assert [line.split()[:2] for line in scores] == [
        ["NAMESPACE", "NAME"],
        ["cluster1", "resource-usage-score"],
        ["cluster2", "resource-usage-score"],
    ]
    assert (
        await terminal(
            "kubectl get addonplacementscore -A "
            '-o=jsonpath=\'{range .items[*]}{.metadata.namespace}{"\\t"}{.status.scores}{"\\n"}{end}\''
        )
        == 'cluster1\t[{"name":"cpuAvailable","value":12},{"name":"memAvailable","value":4}]\n'
        'cluster2\t[{"name":"cpuAvailable","value":12},{"name":"memAvailable","value":4}]\n'
    )

    # A placement for the highest cpuAvailable, after controllers observed all objects.
    await settled(client, everything)
    assert await terminal("kubectl apply -f -", given=PLACEMENT) == (
        "placement.cluster.open-cluster-management.io/placement1 created\n"
    )
    await waits(terminal, "placement/placement1 --for=condition=PlacementSatisfied")
    decision = await terminal("kubectl describe placementdecision -n default")
    assert "Status:\n  Decisions:\n    Cluster Name:  cluster1\n    Reason:" in decision
    assert [line.split() for line in (await terminal("kubectl get placements")).splitlines()] == [
        ["NAME", "SUCCEEDED", "REASON", "SELECTEDCLUSTERS"],
        ["placement1", "True", "AllDecisionsScheduled", "1"],
    ]
    await until_event(client, "cluster1:12 cluster2:12")
    about = "placement1-decision-1 is {what} with placement placement1 in namespace default"
    assert await described(terminal) == [
        ("Normal", "DecisionCreate", f"Decision {about.format(what='created')}"),
        ("Normal", "DecisionUpdate", f"Decision {about.format(what='updated')}"),
        ("Normal", "ScoreUpdate", "cluster1:12 cluster2:12"),
    ]

    # Another score moves the decision.
    await publishes(terminal, "cluster2", cpuAvailable=66, memAvailable=4)
    await moved(terminal, "cluster2")
    await until_event(client, "cluster1:12 cluster2:66")
    assert ("Normal", "ScoreUpdate", "cluster1:12 cluster2:66") in await described(terminal)

    # An expired score is noticed when it expires.
    end = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
    await publishes(terminal, "cluster2", valid_until=format_time(end), cpuAvailable=66, memAvailable=4)
    await moved(terminal, "cluster1")
    assert datetime.now(UTC) > end
    await until_event(client, "expired")
    warning = (
        f"Decision {about.format(what='updated')}: AddOnPlacementScores cluster2/resource-usage-score expired "
        "in plugin AddOn/resource-usage-score/cpuAvailable"
    )
    assert ("Warning", "DecisionUpdate", warning) in await described(terminal)

    # The decision is deleted with its placement.
    await terminal("kubectl delete placement placement1")
    await waits(terminal, f"{DECISION} --for=delete")
