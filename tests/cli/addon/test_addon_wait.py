"""`fairway addon install --wait`: without a decision, while agents start, and while they are upgraded."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.addon.test_addon import NAME, WELL, addon, decide, say_so
from cli.live_hub import act, watch
from fairway.api.addon import ConfigReference, ConfigSpecHash, ManagedClusterAddOn, ManagedClusterAddOnStatus
from fairway.api.decision import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from fairway.api.placement import Placement, PlacementStatus
from fairway.api.resources import ADD_ON_TEMPLATES, PLACEMENTS
from fairway.cli.addon.status import NONE_SELECTED, NOT_REPORTED, NOT_YET
from fairway.cli.addon.wait import NOT_DECIDED, NOT_NEWEST, AddOnState, Config
from fairway.cli.client.wait import NOT_DONE
from fairway.cli.main import run
from fairway.cli.options.wait import NOTHING_TO_WAIT_FOR, TIMEOUT_OF_NOTHING
from fairway.providers.addon import NAMESPACE, Plan
from fairway.testing.hub import HubAddress
from kubewire.api.meta import Condition, ObjectMeta
from kubewire.client import Added, Client, Deleted, Patch, Updated

Capture = pytest.CaptureFixture[str]

TEMPLATE: Config = (ADD_ON_TEMPLATES.plural, "", NAME)


@pytest.fixture
def hub(fairway_hub: HubAddress) -> HubAddress:
    return fairway_hub


async def placed(client: Client, count: int) -> None:
    """Write the decision of the placement controller."""
    condition = {
        "type": "PlacementSatisfied",
        "status": "True",
        "reason": "AllDecisionsScheduled",
        "message": "",
        "lastTransitionTime": "2031-05-05T12:00:00Z",
    }
    body = {"status": {"conditions": [condition], "numberOfSelectedClusters": count}}
    await client.patch(PLACEMENTS, NAME, body, kind=Patch.MERGE, namespace=NAMESPACE, subresource="status")


async def rooms(client: Client, *names: str) -> None:
    for name in names:
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})


def test_install_wait_times_out_without_a_decision(hub: HubAddress, capsys: Capture) -> None:
    assert addon(hub, "install", "--wait", "--timeout", "0", "-o", "json") == 1
    told = capsys.readouterr()
    assert {load["done"] for load in json.loads(told.out)} == {"created"}
    what = f"Placement {NAMESPACE}/{NAME} ({NOT_DECIDED})"
    assert told.err == f"fairway: {NOT_DONE.format(seconds=0, what=what)}\n"


def test_install_wait_names_clusters_without_agent(hub: HubAddress, capsys: Capture) -> None:
    async def live(client: Client) -> None:
        await rooms(client, "c1", "c2")
        await decide(client, "c1", "c2", "c3")
        await placed(client, 3)
        await say_so(client, "c1", {"Available": WELL}, valid=None)
        await say_so(client, "c2", {"Available": ("False", "ProbeUnavailable", "no replica")}, valid=None)

    assert addon(hub, "install") == 0
    act(hub.kubeconfig, live)
    capsys.readouterr()
    assert addon(hub, "install", "--wait", "--timeout", "0") == 1
    what = f"cluster c2 (ProbeUnavailable: no replica), cluster c3 ({NOT_YET})"
    assert capsys.readouterr().err == f"fairway: {NOT_DONE.format(seconds=0, what=what)}\n"


def test_install_wait_ends_if_no_cluster_is_selected(hub: HubAddress, capsys: Capture) -> None:
    assert addon(hub, "install") == 0
    act(hub.kubeconfig, lambda client: placed(client, 0))
    capsys.readouterr()
    assert addon(hub, "install", "--wait", "-o", "json") == 0
    told = capsys.readouterr()
    assert {load["done"] for load in json.loads(told.out)} == {"unchanged"}
    assert NONE_SELECTED.format(name=NAME, where=f"by Placement {NAMESPACE}/{NAME}") in told.err


def test_install_wait_ends_when_all_agents_are_available(hub: HubAddress, tmp_path: Path) -> None:
    async def live(client: Client) -> None:
        await rooms(client, "c1")
        await placed(client, 1)
        await decide(client, "c1")
        await say_so(client, "c1", {"Available": WELL}, valid=None)

    command = ("addon", "install", "resource-usage", "--wait", "--timeout", "600")
    with watch(tmp_path, hub.kubeconfig, *command) as waiting:
        header, *done = waiting.lines(10)  # before the wait begins
        act(hub.kubeconfig, live)
        assert waiting.process.wait() == 0
        assert waiting.process.stdout is not None
        assert waiting.process.stdout.read() == ""
    assert header.startswith("KIND")
    assert done[-1].startswith("ClusterManagementAddOn")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--timeout", "5"), TIMEOUT_OF_NOTHING), (("--wait", "--dry-run"), NOTHING_TO_WAIT_FOR)],
)
def test_addon_timeout_without_wait_is_rejected(
    capsys: Capture, arguments: tuple[str, ...], message: str
) -> None:
    assert run(["addon", "install", "resource-usage", *arguments]) == 2
    assert message in capsys.readouterr().err


# What counts as there


def condition(kind: str, status: str) -> Condition:
    return Condition(type=kind, status=status, reason="Because", message="of this")


def agent(*conditions: Condition, wanted: str = "", applied: str | None = None) -> ManagedClusterAddOn:
    plural, namespace, name = TEMPLATE
    spec: Any = {"namespace": namespace, "name": name}
    reference = ConfigReference(
        resource=plural,
        name=name,
        desiredConfig=ConfigSpecHash(**spec, specHash=wanted) if wanted else None,
        lastAppliedConfig=None if applied is None else ConfigSpecHash(**spec, specHash=applied),
    )
    status = ManagedClusterAddOnStatus(conditions=conditions, configReferences=(reference,))
    return ManagedClusterAddOn(metadata=ObjectMeta(name=NAME, namespace="c1"), status=status)


def add_on_state(*, changed: bool = False, before: str = "", selected: int = 1) -> AddOnState:
    made = AddOnState(
        plan=Plan(provider="resource-usage"),
        changed=frozenset({TEMPLATE} if changed else ()),
        before={("c1", TEMPLATE): before} if before else {},
    )
    status = PlacementStatus(
        conditions=(condition("PlacementSatisfied", "True"),), numberOfSelectedClusters=selected
    )
    made.observe(Added(Placement(status=status)))
    return made


RUNS = condition("Available", "True")
DONE = condition("Progressing", "False")


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (agent(), NOT_REPORTED),
        (agent(RUNS), ""),
        (agent(RUNS, DONE, wanted="a", applied="a"), ""),
        (agent(condition("Available", "Unknown")), "Because: of this"),
        (agent(RUNS, condition("Progressing", "True")), "Because: of this"),
        (agent(RUNS, condition("ManifestApplied", "False")), "Because: of this"),
        (agent(RUNS, DONE, wanted="b", applied="a"), NOT_NEWEST),
    ],
)
def test_missing_step_of_an_agent_is_named(there: ManagedClusterAddOn, why: str) -> None:
    seen = add_on_state(selected=0)
    seen.observe(Added(there))
    assert seen.missing() == ({"cluster c1": why} if why else {})
    seen.observe(Deleted(there))
    assert seen.missing() == {}


def test_agent_of_the_previous_version_is_not_counted() -> None:
    seen = add_on_state(changed=True, before="a", selected=0)
    old = agent(RUNS, DONE, wanted="a", applied="a")
    seen.observe(Added(old))
    assert seen.missing() == {"cluster c1": NOT_NEWEST}
    coming = agent(RUNS, DONE, wanted="b", applied="a")
    seen.observe(Updated(old, coming))
    assert seen.missing() == {"cluster c1": NOT_NEWEST}
    seen.observe(Updated(coming, agent(RUNS, DONE, wanted="b", applied="b")))
    assert seen.missing() == {}


def test_placement_decision_without_status_is_no_decision() -> None:
    seen = add_on_state()
    page = PlacementDecision(metadata=ObjectMeta(name="p", namespace=NAMESPACE))
    seen.observe(Added(page))
    assert seen.missing() == {f"Placement {NAMESPACE}/{NAME}": NOT_DECIDED}
    status = PlacementDecisionStatus(decisions=(ClusterDecision(clusterName="c1", reason=""),))
    full = PlacementDecision(metadata=page.metadata, status=status)
    seen.observe(Updated(page, full))
    assert seen.missing() == {"cluster c1": NOT_YET}
    seen.observe(Deleted(full))
    assert list(seen.missing()) == [f"Placement {NAMESPACE}/{NAME}"]
