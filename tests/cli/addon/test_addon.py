"""`fairway addon`: the objects it writes on an empty hub, and on hubs that have the add-on or one of another owner."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.live_hub import act, fill
from fairway.api import check
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.cluster import Taint
from fairway.api.kinds import KINDS, decode
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_PLACEMENT_SCORES,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.cli.addon.run import BAD_PLACEMENT, NAMESPACE_STAYS, NOTHING_THERE, ONE_CHOICE
from fairway.cli.addon.selector import label_selector
from fairway.cli.addon.status import NO_SCORE, NOT_INSTALLED, NOT_REPORTED, NOT_YET
from fairway.cli.addon.writer import KINDS as WRITTEN
from fairway.cli.addon.writer import NO_PLACEMENT
from fairway.cli.main import run
from fairway.controllers.addons.rbac import AGENT_ROLE
from fairway.controllers.addons.rendering import render
from fairway.providers import health, hosted, usage
from fairway.providers.addon import FAIRWAY, MANAGED_BY, NAMESPACE, PART_OF, Document, Plan, documents
from fairway.testing.builders import cluster, cluster_set, placement
from fairway.testing.hub import HubAddress, hub_in_thread
from fairway.whatif.world import World
from kubewire.api.meta import format_time
from kubewire.api.selector import LabelSelector
from kubewire.client import Client, NotFound, Patch, Resource
from strategies import NOW_MICROS

Capture = pytest.CaptureFixture[str]

NAME = "resource-usage-collect"


@pytest.fixture
def hub(fairway_hub: HubAddress) -> HubAddress:
    return fairway_hub


def addon(hub: HubAddress, *arguments: str) -> int:
    verb, *others = arguments
    return run(["addon", verb, "resource-usage", *others, "--kubeconfig", str(hub.kubeconfig)])


def rows(text: str) -> dict[str, str]:
    """Return the results by object."""
    return {f"{load['kind']} {load['name']}": load["done"] for load in json.loads(text)}


def by_kind(plan: Plan | None = None) -> dict[str, Document]:
    return {document["kind"]: document for document in documents(plan or Plan(provider="resource-usage"))}


def manifests() -> dict[str, Document]:
    workload = by_kind()["AddOnTemplate"]["spec"]["agentSpec"]["workload"]["manifests"]
    return {manifest["kind"]: manifest for manifest in workload}


async def everything(client: Client) -> dict[tuple[str, str, str], str]:
    """Return the resource versions of all objects that an installation may touch."""
    versions: dict[tuple[str, str, str], str] = {}
    resources: tuple[Resource[Any], ...] = (*WRITTEN.values(), ADD_ON_PLACEMENT_SCORES)
    for resource in resources:
        for thing in (await client.list(resource)).items:
            meta = thing.metadata
            versions[resource.kind, meta.namespace, meta.name] = meta.resourceVersion
    return versions


async def _there(client: Client, resource: Resource[Any], name: str, namespace: str | None = None) -> bool:
    try:
        await client.get(resource, name, namespace=namespace)
    except NotFound:
        return False
    return True


# What is written


def test_every_installed_object_is_valid_for_its_kind() -> None:
    for document in documents(Plan(provider="resource-usage", selector={"matchLabels": {"a": "b"}})):
        kind = KINDS.get((document["apiVersion"], document["kind"]))
        if kind is not None:
            assert check(document, kind=kind) == ()
        assert document["metadata"]["labels"] == {MANAGED_BY: FAIRWAY, PART_OF: NAME}


def test_agent_role_on_the_hub_allows_only_scores() -> None:
    role = next(
        document
        for document in documents(Plan(provider="resource-usage"))
        if document["kind"] == "ClusterRole"
    )
    assert role["metadata"]["name"] == AGENT_ROLE == f"open-cluster-management:{NAME}:agent"
    granted = {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}
    assert granted == {
        "addonplacementscores": ["get", "list", "watch", "create", "delete"],
        "addonplacementscores/status": ["get", "patch", "update"],
    }
    assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {
        "cluster.open-cluster-management.io"
    }


def test_escalation_is_allowed_for_the_agent_role_only() -> None:
    roles = [
        document
        for document in documents(Plan(provider="resource-usage"))
        if document["kind"] == "ClusterRole"
    ]
    (rule,) = roles[1]["rules"]
    assert (rule["verbs"], rule["resources"], rule["resourceNames"]) == (
        ["bind"],
        ["clusterroles"],
        [AGENT_ROLE],
    )
    subjects = [
        (subject["namespace"], subject["name"]) for subject in by_kind()["ClusterRoleBinding"]["subjects"]
    ]
    assert ("open-cluster-management-hub", "addon-manager-controller-sa") in subjects


def test_agent_role_on_the_cluster_allows_nodes_pods_and_lease() -> None:
    made = manifests()
    granted = {
        (group, resource): rule["verbs"]
        for rule in made["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {
        ("", "nodes"): ["get", "list", "watch"],
        ("", "pods"): ["get", "list", "watch"],
        ("metrics.k8s.io", "nodes"): ["get", "list"],
    }
    create, renew = made["Role"]["rules"]
    assert create == {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}
    assert renew["resourceNames"] == [NAME]


def test_agent_role_has_the_rules_of_its_providers_once() -> None:
    plan = Plan(
        provider="resource-usage", variables={"PROVIDERS": "resource-usage, hosted-clusters,health,own"}
    )
    template = next(document for document in documents(plan) if document["kind"] == "AddOnTemplate")
    (role,) = (
        manifest
        for manifest in template["spec"]["agentSpec"]["workload"]["manifests"]
        if manifest["kind"] == "ClusterRole"
    )
    needed = [rule.document() for rule in (*usage.RULES, *hosted.RULES, *health.RULES)]
    needed += [rule.document() for rule in hosted.owned_rules(role["metadata"]["name"])]
    assert all(rule in role["rules"] for rule in needed)
    assert all(rule in needed for rule in role["rules"])
    assert len(role["rules"]) == len({str(rule) for rule in role["rules"]})


def test_agent_pod_is_confined() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["fairway", "agent", "run"]
    assert "--hub-kubeconfig={{HUB_KUBECONFIG}}" in container["args"]
    assert "--cluster-name={{CLUSTER_NAME}}" in container["args"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["resources"]["limits"]["memory"]


def test_every_template_variable_of_the_addon_has_a_value() -> None:

    template, config = decode(by_kind()["AddOnTemplate"]), decode(by_kind()["AddOnDeploymentConfig"])
    assert isinstance(template, AddOnTemplate)
    assert isinstance(config, AddOnDeploymentConfig)
    result = render(template, add_on=NAME, cluster="c1", namespace="unused", config=config.spec)
    assert result.moved_to == "open-cluster-management-agent-addon"
    (container,) = result.manifests[-1]["spec"]["template"]["spec"]["containers"]
    assert "--cluster-name=c1" in container["args"]
    assert "--interval=60s" in container["args"]
    assert "--providers=resource-usage" in container["args"]


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_addon_dry_run_prints_objects_without_a_hub(capsys: Capture, output: str) -> None:
    arguments = [
        "--set",
        "INTERVAL=5m",
        "--image",
        "registry.example/f:2",
        "--clusters",
        "env=prod",
        "-n",
        "here",
    ]
    code = run(["addon", "install", "resource-usage", "--dry-run", "-o", output, *arguments])
    assert code == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    items = {item["kind"]: item for item in printed["items"]}
    assert printed["kind"] == "List"
    variables = items["AddOnDeploymentConfig"]["spec"]["customizedVariables"]
    assert {"name": "INTERVAL", "value": "5m"} in variables
    assert items["Placement"]["metadata"]["namespace"] == "here"
    predicate = items["Placement"]["spec"]["predicates"][0]["requiredClusterSelector"]["labelSelector"]
    assert predicate == {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod"]}]}
    deployment = items["AddOnTemplate"]["spec"]["agentSpec"]["workload"]["manifests"][-1]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/f:2"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=b", [("a", "In", ["b"])]),
        ("a==b,c!=d", [("a", "In", ["b"]), ("c", "NotIn", ["d"])]),
        ("a in (b, c) , d notin (e)", [("a", "In", ["b", "c"]), ("d", "NotIn", ["e"])]),
        ("x.io/a,!b", [("x.io/a", "Exists", []), ("b", "DoesNotExist", [])]),
        ("a=", [("a", "In", [""])]),
    ],
)
def test_addon_selector_is_parsed_as_in_kubectl(text: str, wanted: list[tuple[str, str, list[str]]]) -> None:
    expressions = label_selector(text)["matchExpressions"]
    assert [
        (expression["key"], expression["operator"], expression.get("values", []))
        for expression in expressions
    ] == wanted


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["install", "resource-usge"], "did you mean 'resource-usage'?"),
        (["install", "resource-usage", "--set", "INTERVAL"], "'INTERVAL' is not a setting; write NAME=VALUE"),
        (["install", "resource-usage", "--set", "MAXCPU=1"], "did you mean 'MAXCPUCOUNT'?"),
        (["install", "resource-usage", "--set", f"INTERVAL={'1' * 1025}"], "longer than 1,024"),
        (
            ["install", "resource-usage", "--set", "INTERVAL=abc"],
            "--set INTERVAL=abc: expected a duration such as 30s",
        ),
        (["install", "resource-usage", "--set", "INTERVAL=-5s"], "--set INTERVAL=-5s: expected a duration"),
        (
            ["install", "resource-usage", "--set", "INTERVAL=0"],
            "--set INTERVAL=0: INTERVAL must be at least 1s",
        ),
        (["install", "resource-usage", "--set", "VALID_FOR=30s"], "make them valid for 75 s or more"),
        (
            ["install", "resource-usage", "--set", "MAXCPUCOUNT=-4"],
            "--set MAXCPUCOUNT=-4: provider resource-usage:",
        ),
        (["install", "resource-usage", "--set", "MAXMEMCOUNT=1XB"], 'unknown suffix "XB"'),
        (["install", "resource-usage", "--set", "SCORES=cpuAvail"], "did you mean 'cpuAvailable'?"),
        (
            ["install", "resource-usage", "--set", "LOG_FORMAT=xml"],
            "--set LOG_FORMAT=xml: 'xml' is not one of",
        ),
        (["install", "resource-usage", "--set", "PROVIDERS=heath"], "did you mean 'health'?"),
        (["install", "resource-usage", "--set", "PROVIDERS=prometheus"], "reads all clusters of a hub"),
        (["install", "resource-usage", "--placement", "p"], BAD_PLACEMENT.format(given="p")),
        (["install", "resource-usage", "--placement", "a/b", "--all"], ONE_CHOICE),
        (["install", "resource-usage", "--clusters", "a in b"], "is not a label selector"),
        (["install", "resource-usage", "--clusters", ""], "is not a label selector"),
        (["install", "resource-usage", "--clusters", "a=b,"], "is not a label selector"),
        (["install", "resource-usage", "--clusters", "-=b"], "is not a label selector"),
        (["install"], "Missing argument"),
        (["uninstall", "resource-usage", "--timeout", "-1"], "--timeout"),
    ],
)
def test_invalid_addon_options_exit_2(capsys: Capture, arguments: list[str], complaint: str) -> None:
    assert run(["addon", *arguments]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("output", ["table", "yaml"])
def test_dry_run_refuses_settings_that_the_agent_would_refuse(capsys: Capture, output: str) -> None:
    settings = ["--set", "INTERVAL=10s", "--set", "VALID_FOR=30s"]
    assert run(["addon", "install", "resource-usage", "--dry-run", "-o", "yaml", *settings]) == 0
    capsys.readouterr()
    settings += ["--set", "VALID_FOR=11s", "--set", "MAXCPUCOUNT=64"]
    assert run(["addon", "install", "resource-usage", "--dry-run", "-o", output, *settings]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "Error: --set INTERVAL=10s --set VALID_FOR=11s: provider resource-usage: scores valid for 11 s"
        in told
    )


def test_provider_that_only_an_own_image_has_needs_the_image(capsys: Capture) -> None:
    install = ["addon", "install", "resource-usage", "--dry-run", "-o", "yaml", "--set", "PROVIDERS=queue"]
    assert run(install) == 2
    assert "name the image with --image" in " ".join(capsys.readouterr().err.split())
    assert run([*install, "--image", "example.com/own:1"]) == 0


def test_addon_commands_on_a_hub_without_addon_crds_exit_2(tmp_path: Path, capsys: Capture) -> None:
    with hub_in_thread(folder=tmp_path, definitions=()) as bare:
        for verb in ("install", "status", "uninstall"):
            assert addon(bare, verb) == 2
            assert "the hub does not serve ClusterManagementAddOn" in capsys.readouterr().err


# On a hub


def test_second_install_of_the_addon_changes_nothing(hub: HubAddress, capsys: Capture) -> None:
    assert addon(hub, "install", "-o", "json") == 0
    assert set(rows(capsys.readouterr().out).values()) == {"created"}
    before = act(hub.kubeconfig, everything)
    assert addon(hub, "install", "-o", "json") == 0
    assert set(rows(capsys.readouterr().out).values()) == {"unchanged"}
    assert act(hub.kubeconfig, everything) == before


def test_install_with_another_image_upgrades_the_addon(hub: HubAddress, capsys: Capture) -> None:
    assert addon(hub, "install", "--clusters", "a=b", "--set", "INTERVAL=5m") == 0
    capsys.readouterr()
    assert addon(hub, "install", "--image", "registry.example/new:2", "--dry-run") == 0
    assert "changed" in capsys.readouterr().out
    assert addon(hub, "install", "--image", "registry.example/new:2", "-o", "json") == 0
    done = rows(capsys.readouterr().out)
    assert done[f"AddOnTemplate {NAME}"] == done[f"Placement {NAME}"] == "changed"
    assert done[f"ClusterManagementAddOn {NAME}"] == "unchanged"
    placed = act(hub.kubeconfig, lambda client: client.get(PLACEMENTS, NAME, namespace=NAMESPACE))
    assert placed.spec.predicates == ()  # removed settings are deleted


def test_addon_install_dry_run_writes_nothing(hub: HubAddress, capsys: Capture) -> None:
    before = act(hub.kubeconfig, everything)
    assert addon(hub, "install", "--dry-run") == 0
    assert "created" in capsys.readouterr().out
    assert act(hub.kubeconfig, everything) == before
    assert addon(hub, "install") == 0
    installed = act(hub.kubeconfig, everything)
    assert addon(hub, "uninstall", "--dry-run") == 0
    assert act(hub.kubeconfig, everything) == installed


def test_addon_install_uses_an_existing_placement(hub: HubAddress, capsys: Capture) -> None:
    assert addon(hub, "install", "--placement", "ns1/edge") == 2
    assert NO_PLACEMENT.format(namespace="ns1", name="edge") in capsys.readouterr().err
    fill(hub.kubeconfig, placement("edge", namespace="ns1"))
    assert addon(hub, "install", "--placement", "ns1/edge", "-o", "json") == 0
    assert not any(row.startswith("Placement") for row in rows(capsys.readouterr().out))
    offer = act(hub.kubeconfig, lambda client: client.get(CLUSTER_MANAGEMENT_ADD_ONS, NAME))
    (chosen,) = offer.spec.installStrategy.placements
    assert (chosen.namespace, chosen.name) == ("ns1", "edge")


def test_addon_of_another_owner_is_not_changed(hub: HubAddress, capsys: Capture) -> None:
    """As OCM's own resource-usage-collect add-on."""
    theirs = {
        "metadata": {"name": NAME, "labels": {"theirs": "yes"}},
        "spec": {
            "installStrategy": {
                "type": "Placements",
                "placements": [{"name": "global", "namespace": "open-cluster-management-addon"}],
            }
        },
    }
    template = {"metadata": {"name": NAME}, "spec": {"addonName": NAME, "agentSpec": {}}}

    async def install_theirs(client: Client) -> None:
        await client.create(CLUSTER_MANAGEMENT_ADD_ONS, theirs)
        await client.create(ADD_ON_TEMPLATES, template)

    act(hub.kubeconfig, install_theirs)
    before = act(hub.kubeconfig, everything)
    assert addon(hub, "install") == 2
    error = capsys.readouterr().err
    assert (
        f"AddOnTemplate {NAME}, ClusterManagementAddOn {NAME} already exist and are not managed by Fairway"
        in error
    )
    assert "--take-over" in error
    assert act(hub.kubeconfig, everything) == before  # nothing at all was written
    assert addon(hub, "uninstall") == 0
    assert NOTHING_THERE.format(name=NAME) in capsys.readouterr().out
    assert act(hub.kubeconfig, everything) == before

    assert addon(hub, "install", "--take-over", "-o", "json") == 0
    done = rows(capsys.readouterr().out)
    assert done[f"ClusterManagementAddOn {NAME}"] == done[f"AddOnTemplate {NAME}"] == "taken over"
    offer = act(hub.kubeconfig, lambda client: client.get(CLUSTER_MANAGEMENT_ADD_ONS, NAME))
    assert [placement.name for placement in offer.spec.installStrategy.placements] == [NAME]
    assert "theirs" not in offer.metadata.labels
    assert addon(hub, "install", "-o", "json") == 0
    assert set(rows(capsys.readouterr().out).values()) == {"unchanged"}


def test_uninstall_removes_the_addon_and_its_scores(hub: HubAddress, capsys: Capture) -> None:
    async def make_others(client: Client) -> None:
        for name in ("c1", "open-cluster-management-addon"):
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        body = {"metadata": {"name": "global"}, "spec": {"clusterSet": "global"}}
        binding = WRITTEN["ManagedClusterSetBinding"]
        await client.create(binding, body, namespace="open-cluster-management-addon")
        for name, labels in (
            ("resource-usage-score", {MANAGED_BY: FAIRWAY, "fairway.dev/provider": "resource-usage"}),
            ("health-score", {MANAGED_BY: FAIRWAY, "fairway.dev/provider": "health"}),
            ("queue-score", {MANAGED_BY: FAIRWAY, "fairway.dev/provider": "queue"}),
            ("theirs", {}),
        ):
            score = {"metadata": {"name": name, "labels": labels}}
            await client.create(ADD_ON_PLACEMENT_SCORES, score, namespace="c1")

    act(hub.kubeconfig, make_others)
    before = act(hub.kubeconfig, everything)
    assert addon(hub, "install", "--set", "PROVIDERS=resource-usage,health", "-o", "json") == 0
    assert rows(capsys.readouterr().out)["ManagedClusterSetBinding global"] == "kept"
    assert addon(hub, "uninstall") == 0
    printed = capsys.readouterr().out
    assert "resource-usage-score" in printed
    assert NAMESPACE_STAYS.format(name=NAMESPACE) in printed
    after = act(hub.kubeconfig, everything)
    assert before.items() - after.items() == {
        entry for entry in before.items() if entry[0][2] in ("resource-usage-score", "health-score")
    }
    assert after.keys() <= before.keys()
    assert addon(hub, "uninstall") == 0
    assert NOTHING_THERE.format(name=NAME) in capsys.readouterr().out


def test_uninstall_names_agents_that_still_run(hub: HubAddress, capsys: Capture) -> None:
    """A work remains until its cluster removed the applied objects."""
    assert addon(hub, "install") == 0

    async def bring(client: Client) -> None:
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "c1"}})
        offer = await client.get(CLUSTER_MANAGEMENT_ADD_ONS, NAME)
        work = {
            "metadata": {
                "name": f"addon-{NAME}-deploy-0",
                "labels": {"open-cluster-management.io/addon-name": NAME},
                "finalizers": ["cluster.open-cluster-management.io/manifest-work-cleanup"],
                "ownerReferences": [
                    {
                        "apiVersion": offer.apiVersion,
                        "kind": offer.kind,
                        "name": NAME,
                        "uid": offer.metadata.uid,
                    }
                ],
            },
            "spec": {"workload": {"manifests": []}},
        }
        await client.create(MANIFEST_WORKS, work, namespace="c1")

    act(hub.kubeconfig, bring)
    capsys.readouterr()
    assert addon(hub, "uninstall", "--timeout", "0") == 1
    assert "still on c1: the agent is removed when the cluster responds again" in capsys.readouterr().out
    assert not act(hub.kubeconfig, lambda client: _there(client, CLUSTER_MANAGEMENT_ADD_ONS, NAME))
    assert addon(hub, "uninstall", "--timeout", "0") == 1
    assert "still on c1" in capsys.readouterr().out
    assert not act(hub.kubeconfig, lambda client: _there(client, ADD_ON_DEPLOYMENT_CONFIGS, NAME, NAMESPACE))


# How it is


async def say_so(
    client: Client, cluster_name: str, conditions: dict[str, tuple[str, str, str]], *, valid: timedelta | None
) -> None:
    """Write what controllers and an agent would write."""
    body = {"metadata": {"name": NAME}, "spec": {}}
    await client.create(MANAGED_CLUSTER_ADD_ONS, body, namespace=cluster_name)
    now = datetime.now(UTC)
    told = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_time(now),
        }
        for kind, (status, reason, message) in conditions.items()
    ]
    await client.patch(
        MANAGED_CLUSTER_ADD_ONS,
        NAME,
        {"status": {"conditions": told}},
        kind=Patch.MERGE,
        namespace=cluster_name,
        subresource="status",
    )
    if valid is None:
        return
    labels = {MANAGED_BY: FAIRWAY, "fairway.dev/provider": "resource-usage"}
    score = {"metadata": {"name": "resource-usage-score", "labels": labels}}
    await client.create(ADD_ON_PLACEMENT_SCORES, score, namespace=cluster_name)
    await client.patch(
        ADD_ON_PLACEMENT_SCORES,
        "resource-usage-score",
        {"status": {"scores": [], "validUntil": format_time(now + valid)}},
        kind=Patch.MERGE,
        namespace=cluster_name,
        subresource="status",
    )


WELL = ("True", "ProbeAvailable", "it is available")


async def decide(client: Client, *clusters: str) -> None:
    page = {"metadata": {"name": f"{NAME}-decision-1", "labels": {PLACEMENT_LABEL: NAME}}}
    await client.create(PLACEMENT_DECISIONS, page, namespace=NAMESPACE)
    decisions = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
    await client.patch(
        PLACEMENT_DECISIONS,
        f"{NAME}-decision-1",
        {"status": {"decisions": decisions}},
        kind=Patch.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )


def test_addon_status_lists_agents_with_their_state(hub: HubAddress, capsys: Capture) -> None:
    assert addon(hub, "status") == 1
    assert NOT_INSTALLED.format(name=NAME, provider="resource-usage") in capsys.readouterr().err
    assert addon(hub, "install") == 0
    capsys.readouterr()
    assert addon(hub, "status") == 1
    assert f"no cluster is selected for it (by Placement {NAMESPACE}/{NAME})" in capsys.readouterr().out
    names = [f"c{number}" for number in range(1, 8)]
    fill(hub.kubeconfig, *(cluster(name) for name in names))

    async def live(client: Client) -> None:
        for name in names:
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        await decide(client, *names)
        hour = timedelta(hours=1)
        await say_so(client, "c1", {"Available": WELL}, valid=hour)
        await say_so(client, "c2", {"Available": WELL}, valid=-hour)
        await say_so(client, "c3", {"Available": WELL}, valid=None)
        await say_so(client, "c4", {"Available": ("False", "ProbeUnavailable", "no replica")}, valid=None)
        broken = ("False", "TemplateInvalid", "nobody defines it")
        await say_so(
            client, "c5", {"Available": ("Unknown", "X", "y"), "ManifestApplied": broken}, valid=None
        )
        await say_so(client, "c6", {}, valid=None)

    act(hub.kubeconfig, live)
    assert addon(hub, "status") == 1
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == f"add-on {NAME} runs on 3 of 7 clusters; 1 publishes valid scores"
    assert addon(hub, "status", "-o", "json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["clusters"], told["running"], told["publishing"]) == (7, 3, 1)
    why = {cluster["cluster"]: cluster["why"] for cluster in told["perCluster"]}
    assert why.pop("c2").startswith("its scores expired at ")
    assert why == {
        "c1": "",
        "c3": NO_SCORE,
        "c4": "ProbeUnavailable: no replica",
        "c5": "TemplateInvalid: nobody defines it",
        "c6": NOT_REPORTED,
        "c7": NOT_YET,
    }


def test_addon_status_exits_0_if_all_agents_are_available(hub: HubAddress, capsys: Capture) -> None:
    assert addon(hub, "install") == 0

    async def live(client: Client) -> None:
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "c1"}})
        await say_so(client, "c1", {"Available": WELL}, valid=timedelta(hours=1))

    act(hub.kubeconfig, live)
    capsys.readouterr()
    assert addon(hub, "status") == 0
    assert "runs on 1 of 1 cluster; 1 publishes valid scores" in capsys.readouterr().out


def test_status_counts_accepted_clusters_that_the_add_on_is_not_selected_for(
    hub: HubAddress, capsys: Capture
) -> None:
    fill(hub.kubeconfig, *(cluster(name) for name in ("c1", "c2", "c3")))

    async def live(client: Client) -> None:
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "c1"}})
        await say_so(client, "c1", {"Available": WELL}, valid=timedelta(hours=1))
        denied = {"spec": {"hubAcceptsClient": False}}
        await client.patch(MANAGED_CLUSTERS, "c3", denied, kind=Patch.MERGE)

    assert addon(hub, "install", "--clusters", "env=prod") == 0
    act(hub.kubeconfig, live)
    capsys.readouterr()
    missing = f"1 accepted cluster not selected by Placement {NAMESPACE}/{NAME}, without the agent: c2"
    assert addon(hub, "status") == 0  # the add-on is not meant for c2
    assert missing in capsys.readouterr().out
    assert addon(hub, "install") == 0
    capsys.readouterr()
    assert addon(hub, "status") == 1
    assert missing in capsys.readouterr().out
    assert addon(hub, "status", "-o", "json") == 1
    assert json.loads(capsys.readouterr().out)["withoutAgent"] == ["c2"]


def test_placement_of_the_add_on_selects_clusters_whatever_their_taints() -> None:
    taints = (
        Taint(key="fairway.dev/unhealthy", value="HealthLow", effect="NoSelect"),
        Taint(key="quarantine", effect="NoSelectIfNew"),
        Taint(key="cluster.open-cluster-management.io/unreachable", effect="NoSelect"),
    )
    selecting = ("Placement", "ManagedClusterSetBinding")
    world = World(
        [
            *(
                decode(document)
                for document in documents(Plan(provider="resource-usage"))
                if document["kind"] in selecting
            ),
            cluster_set("global", selector=LabelSelector(), kind="LabelSelector"),
            cluster("tainted", taints=taints),
        ]
    )
    verdict = world.place((NAMESPACE, NAME), now=NOW_MICROS)
    assert [decision.clusterName for page in verdict.pages for decision in page.decisions] == ["tainted"]
