import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.live_hub import act, fill
from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.cli.client.names import NAMESPACES
from fairway.cli.main import run
from fairway.testing.builders import binding, cluster, cluster_set, selector
from fairway.testing.hub import HubAddress
from kubewire.client import Client

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def hub(fairway_hub: HubAddress) -> HubAddress:
    fill(
        fairway_hub.kubeconfig,
        cluster_set("default"),
        cluster_set("apps"),
        cluster_set("global", selector=selector()),
        cluster_set("europe", selector=selector(labels={"region": "eu"})),
        cluster("c1"),
        cluster("c2", member_of=""),
        binding("default", namespace="ns1"),
    )

    async def more(client: Client) -> None:
        for name in ("ns2", "c1"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})

    act(fairway_hub.kubeconfig, more)
    return fairway_hub


def clusterset(hub: HubAddress, *arguments: str) -> int:
    return run(["clusterset", *arguments, "--kubeconfig", str(hub.kubeconfig)])


def bindings(hub: HubAddress) -> dict[tuple[str, str], str]:
    async def read(client: Client) -> dict[tuple[str, str], str]:
        listing = await client.list(MANAGED_CLUSTER_SET_BINDINGS)
        return {(item.metadata.namespace, item.metadata.name): item.spec.clusterSet for item in listing.items}

    return act(hub.kubeconfig, read)


def members(hub: HubAddress) -> dict[str, str]:
    async def read(client: Client) -> dict[str, str]:
        clusters = await client.list(MANAGED_CLUSTERS)
        return {
            item.metadata.name: item.metadata.labels.get(CLUSTER_SET_LABEL, "") for item in clusters.items
        }

    return act(hub.kubeconfig, read)


DEFAULT = {("ns1", "default"): "default"}


def test_document_lists_what_became_of_each_object(hub: HubAddress, capsys: Capture) -> None:
    kind = {"kind": "ManagedClusterSetBinding", "name": "apps", "dryRun": False}
    assert clusterset(hub, "bind", "apps", "-n", "ns1") == 0
    capsys.readouterr()
    assert clusterset(hub, "bind", "apps", "-n", "ns1,ns2", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            **kind,
            "namespace": "ns1",
            "result": "unchanged",
            "message": "set apps already bound to namespace ns1",
        },
        {**kind, "namespace": "ns2", "result": "created", "message": "set apps bound to namespace ns2"},
    ]
    assert clusterset(hub, "unbind", "apps", "-n", "ns1,ns3", "--dry-run", "-o", "yaml") == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert [(entry["result"], entry["dryRun"]) for entry in shown] == [
        ("deleted", True),
        ("unchanged", False),
    ]
    assert clusterset(hub, "set", "apps", "--clusters", "c1", "-o", "json") == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["kind"], entry["name"], entry["result"]) == ("ManagedCluster", "c1", "configured")


def test_clusterset_is_bound_and_unbound(hub: HubAddress, capsys: Capture) -> None:
    assert clusterset(hub, "bind", "apps", "-n", "ns1,ns2") == 0
    assert capsys.readouterr() == ("set apps bound to namespace ns1\nset apps bound to namespace ns2\n", "")
    assert bindings(hub) == DEFAULT | {("ns1", "apps"): "apps", ("ns2", "apps"): "apps"}
    assert clusterset(hub, "bind", "apps", "-n", "ns1", "-n", "ns2") == 0
    assert capsys.readouterr().out.count("already bound") == 2
    assert clusterset(hub, "unbind", "apps", "-n", "ns2", "-n", "ns1") == 0
    assert capsys.readouterr().out == (
        "set apps unbound from namespace ns2\nset apps unbound from namespace ns1\n"
    )
    assert bindings(hub) == DEFAULT
    assert clusterset(hub, "unbind", "apps", "-n", "ns1") == 0
    assert capsys.readouterr().out == "set apps is not bound to namespace ns1\n"


def test_clusterset_bind_defaults_to_the_namespace_of_the_context(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    config: dict[str, Any] = yaml.safe_load(hub.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = "ns2"
    other = tmp_path / "elsewhere"
    other.write_text(json.dumps(config))
    assert run(["clusterset", "bind", "apps", "--kubeconfig", str(other)]) == 0
    assert capsys.readouterr().out == "set apps bound to namespace ns2\n"
    assert run(["clusterset", "unbind", "apps", "--kubeconfig", str(other)]) == 0
    assert bindings(hub) == DEFAULT


def test_binding_of_a_deleted_set_can_be_removed(hub: HubAddress, capsys: Capture) -> None:
    act(hub.kubeconfig, lambda client: client.delete(MANAGED_CLUSTER_SETS, "default"))
    assert clusterset(hub, "unbind", "default", "-n", "ns1") == 0
    assert bindings(hub) == {}
    capsys.readouterr()
    assert clusterset(hub, "unbind", "default", "-n", "ns1") == 2
    assert "cluster set default not found; " in capsys.readouterr().err


def test_clusterset_add_moves_clusters_between_sets(hub: HubAddress, capsys: Capture) -> None:
    assert clusterset(hub, "set", "apps", "--clusters", "c1,c2") == 0
    assert capsys.readouterr() == (
        "cluster c1 moved from set default to set apps\ncluster c2 added to set apps\n",
        "",
    )
    assert members(hub) == {"c1": "apps", "c2": "apps"}
    assert clusterset(hub, "set", "apps", "--clusters", "c1", "--clusters", "c1, c2") == 0
    assert capsys.readouterr().out == "cluster c1 already in set apps\ncluster c2 already in set apps\n"


def test_clusterset_dry_run_writes_nothing(hub: HubAddress, capsys: Capture) -> None:
    assert clusterset(hub, "bind", "apps", "-n", "ns2", "--dry-run") == 0
    assert clusterset(hub, "unbind", "default", "-n", "ns1", "--dry-run") == 0
    assert clusterset(hub, "set", "apps", "--clusters", "c1,c2", "--dry-run") == 0
    assert clusterset(hub, "bind", "default", "-n", "ns1", "--dry-run") == 0
    assert capsys.readouterr().out == (
        "set apps bound to namespace ns2 (dry run)\n"
        "set default unbound from namespace ns1 (dry run)\n"
        "cluster c1 moved from set default to set apps (dry run)\n"
        "cluster c2 added to set apps (dry run)\n"
        "set default already bound to namespace ns1\n"
    )
    assert (bindings(hub), members(hub)) == (DEFAULT, {"c1": "default", "c2": ""})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bind", "aps", "-n", "ns2"], "cluster set aps not found; did you mean apps?"),
        (["bind", "apps", "-n", "ns2,ns3"], "namespace ns3 not found; did you mean ns2 or ns1?"),
        (["bind", "apps", "-n", "c1"], "namespace c1 belongs to the cluster of that name"),
        (["unbind", "defalut", "-n", "ns1"], "cluster set defalut not found; did you mean default?"),
        (["set", "apps", "--clusters", "c2,c3x"], "cluster c3x not found; "),
        (["set", "aps", "--clusters", "c2"], "cluster set aps not found; did you mean apps?"),
        (["set", "global", "--clusters", "c2"], "set global selects clusters by label (all clusters)"),
        (
            ["set", "europe", "--clusters", "c2"],
            "by label (region in (eu)), so clusters cannot be added by name",
        ),
    ],
)
def test_unknown_name_in_clusterset_changes_nothing(
    hub: HubAddress, capsys: Capture, arguments: list[str], message: str
) -> None:
    assert clusterset(hub, *arguments) == 2
    shown, complaint = capsys.readouterr()
    assert (shown, complaint.count("\n")) == ("", 1)
    assert message in complaint
    assert (bindings(hub), members(hub)) == (DEFAULT, {"c1": "default", "c2": ""})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "apps"], "no cluster named; for example: --clusters a,b"),
        (["set", "apps", "--clusters", "c1,,c2"], "--clusters: empty name"),
        (["bind", "apps", "-n", ""], "-n: empty name"),
        (["bind"], "Missing argument 'SET'"),
    ],
)
def test_wrong_usage_of_clusterset_exits_2(
    hub: HubAddress, capsys: Capture, arguments: list[str], message: str
) -> None:
    assert clusterset(hub, *arguments) == 2
    assert message in capsys.readouterr().err
