"""`fairway explain` against a hub, and while it changes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from cli.live_hub import EXAMPLE, act, fill, merge, put, remove, watch, write_status
from fairway.api.placement import PLACEMENT_LABEL, PlacementSpec, PlacementStatus
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS
from fairway.cli.client.objects import NOT_COUNTED
from fairway.cli.explain.answer import Question, answer
from fairway.cli.explain.queue import UNKNOWN
from fairway.cli.main import run
from fairway.testing.builders import addon, binding, cluster, cluster_set, decision, placement, policy, score
from fairway.testing.hub import HubAddress, hub_in_thread
from fairway.whatif.world import World
from fairway.workloads.placement.conditions import NOT_ALL_SCHEDULED, SATISFIED
from kubewire.api.meta import FALSE, Condition
from kubewire.client import Client, Forbidden

Capture = pytest.CaptureFixture[str]
NOW = ("--now", "2026-01-03T00:00:00Z")
NAME = "ns1/most-free-cpu"


@pytest.fixture(autouse=True)
def no_controllers(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other tests on this machine are not asked."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    with hub_in_thread(folder=tmp_path_factory.mktemp("explain")) as hub:
        fill(
            hub.kubeconfig,
            decision("most-free-cpu-decision-1", ["apps-fra", "apps-iad"], placement="most-free-cpu"),
            decision("training-decision-1", [], placement="training"),
            decision("idlest-decision-1", [f"c{number:02}" for number in range(12)], placement="idlest"),
            paths=[EXAMPLE],
        )
        yield hub


def explain(hub: HubAddress, name: str, *arguments: str) -> int:
    return run(["explain", *NOW, "placement", name, *arguments, "--kubeconfig", str(hub.kubeconfig)])


def test_explain_of_a_hub_equals_that_of_its_files(hub: HubAddress, capsys: Capture) -> None:
    assert run(["explain", *NOW, "-f", str(EXAMPLE), "placement", NAME, "--cluster", "gpu-iad"]) == 0
    lines = capsys.readouterr().out.splitlines()
    lines.insert(2, "on the hub: the same clusters")
    assert explain(hub, NAME, "--cluster", "gpu-iad") == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("name", "options", "shown"),
    [
        pytest.param(NAME, [], False, id="decided and satisfied"),
        pytest.param(NAME, ["--all"], True, id="all"),
        pytest.param("ns1/placement", [], True, id="not decided yet"),
        pytest.param("ns1/training", [], True, id="decided otherwise"),
    ],
)
def test_explain_names_the_queue_of_placements_that_may_wait(
    hub: HubAddress, name: str, options: list[str], shown: bool, capsys: Capture
) -> None:
    assert explain(hub, name, *options) == 0
    printed = capsys.readouterr().out.splitlines()
    assert (f"  {UNKNOWN.format(name=name)}" in printed) == shown


@pytest.mark.parametrize(
    ("name", "told", "recorded"),
    [
        ("ns1/placement", "not decided yet", None),
        ("ns1/training", "no cluster, which differs from what the objects on the hub give now", []),
        (
            "ns1/idlest",
            "c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 … and 2 more, which differs from what the "
            "objects on the hub give now",
            [f"c{number:02}" for number in range(12)],
        ),
    ],
)
def test_explain_shows_the_decision_on_the_hub(
    hub: HubAddress, capsys: Capture, name: str, told: str, recorded: list[str] | None
) -> None:
    assert explain(hub, name) == 0
    assert capsys.readouterr().out.splitlines()[2] == f"on the hub: {told}"
    assert explain(hub, name, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["recorded"] == recorded


@pytest.mark.parametrize("debits", [True, False], ids=["debits", "no debits"])
@pytest.mark.parametrize(
    "verb", [["explain", "placement", NAME], ["place", "--placement", NAME]], ids=["explain", "place"]
)
def test_requests_that_cannot_be_listed_are_named_if_the_profile_has_debits(
    hub: HubAddress,
    verb: list[str],
    debits: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    arguments = {"debits": {"hosted-clusters-score/hostedClustersCount": 1}} if debits else {}
    profile = {"pluginConfig": [{"name": "PrioritizerPolicy", "args": arguments}]}
    config = tmp_path / "scheduler.yaml"
    kind = {"apiVersion": "fairway.dev/v1alpha1", "kind": "SchedulerConfiguration"}
    config.write_text(yaml.safe_dump({**kind, "profiles": [profile]}))
    request = Client.request

    async def without_requests(client: Client, method: str, path: str, **more: Any) -> Any:
        if HOSTED_CLUSTER_REQUESTS.plural in path:
            raise Forbidden("denied", code=403, reason="Forbidden")
        return await request(client, method, path, **more)

    monkeypatch.setattr(Client, "request", without_requests)
    hub_options = ("--scheduler-config", str(config), "--kubeconfig", str(hub.kubeconfig))
    assert run([*verb, *NOW, *hub_options]) == 0
    note = NOT_COUNTED.format(kind=HOSTED_CLUSTER_REQUESTS.kind, reason="403 Forbidden: denied")
    assert capsys.readouterr().err == (f"{note}\n" if debits else "")


@pytest.mark.parametrize(("decided", "shown"), [(["b"], True), (["a"], False)], ids=["other", "same"])
def test_explain_shows_why_the_controller_keeps_an_earlier_decision(
    decided: list[str], shown: bool, capsys: Capture
) -> None:
    message = "waiting for the permit of plugin Approval"
    stuck = Condition(type=SATISFIED, status=FALSE, reason=NOT_ALL_SCHEDULED, message=message)
    by_cpu = policy(addon("cpu"), mode="Exact")
    wants = placement("p", spec=PlacementSpec(numberOfClusters=1, prioritizerPolicy=by_cpu))
    wants = structs.replace(wants, status=PlacementStatus(conditions=(stuck,)))
    fleet = [cluster_set("default"), binding("default"), cluster("a"), cluster("b"), score("a", {"cpu": 9})]
    world = World([*fleet, wants, decision("p-decision-1", decided, placement="p")])
    asked = Question(name="ns1/p", cluster=None, everything=False, output="table")
    text = answer(world, ("ns1", "p"), None, asked, now=0, live=True)
    assert isinstance(text, str)
    assert (f"    the controller reports: {message}" in text.splitlines()) == shown


def test_explain_uses_decisions_of_other_placements_on_the_hub(
    fairway_hub: HubAddress, capsys: Capture
) -> None:
    fill(fairway_hub.kubeconfig, paths=[EXAMPLE])

    def total() -> int:
        assert explain(fairway_hub, "ns1/training", "--alone", "-o", "json") == 0
        (host,) = json.loads(capsys.readouterr().out)["chosen"]
        return int(host["total"])

    assert total() == 100
    fill(fairway_hub.kubeconfig, decision("other-decision-1", ["gpu-iad"], placement="other"))
    assert total() < 100


def test_explain_defaults_to_the_namespace_of_the_context(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    assert explain(hub, "most-free-cpu") == 0
    capsys.readouterr()
    file = tmp_path / "twin.yaml"
    file.write_text(
        "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n"
        "metadata: {name: most-free-cpu, namespace: default}\nspec: {}\n"
    )
    assert explain(hub, "most-free-cpu", "-f", str(file), "--hub") == 0
    assert capsys.readouterr().out.startswith("default/most-free-cpu: ")
    assert explain(hub, "most-free-cpx") == 2
    assert "did you mean ns1/most-free-cpu?" in capsys.readouterr().err


def test_explain_of_a_file_against_the_hub(hub: HubAddress, tmp_path: Path, capsys: Capture) -> None:
    documents = yaml.safe_load_all((EXAMPLE / "placements.yaml").read_text())
    (changed,) = (document for document in documents if document["metadata"]["name"] == "most-free-cpu")
    changed["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    file = tmp_path / "changed.yaml"
    file.write_text(yaml.safe_dump(changed))
    assert explain(hub, NAME, "-f", str(file), "--hub", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [host["cluster"] for host in document["chosen"]] == ["gpu-iad", "apps-iad"]
    assert document["recorded"] == ["apps-fra", "apps-iad"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "x.yaml", "--watch"], "--watch requires a hub; with -f, add --hub"),
        (["--watch", *NOW], "--watch and --now exclude each other"),
    ],
)
def test_explain_watch_rejects_contradictory_options(
    capsys: Capture, arguments: list[str], message: str
) -> None:
    assert run(["explain", "placement", "web", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_explain_watch_prints_again_when_the_result_changes(tmp_path: Path, fairway_hub: HubAddress) -> None:
    # The label is set together with the status, because a page without status would be an empty decision.
    page = decision("web-decision-1", ["c1"])
    fill(
        fairway_hub.kubeconfig,
        page,
        cluster_set("default"),
        binding("default"),
        cluster("c1"),
        cluster("elsewhere", member_of=""),
        placement("web"),
    )
    arguments = ("explain", "placement", "ns1/web", "--watch")
    with watch(tmp_path, fairway_hub.kubeconfig, *arguments) as watched:
        first = [watched.line() for _ in range(3)]
        assert first[0].startswith("ns1/web: 1 cluster, AllDecisionsScheduled")
        assert first[2] == "on the hub: not decided yet"
        own = {"metadata": {"labels": {PLACEMENT_LABEL: "web"}}}
        act(fairway_hub.kubeconfig, lambda client: merge(client, page, own))
        lines: list[str] = []
        while not lines or lines[-1] != "on the hub: the same clusters":
            lines.append(watched.line())
        assert sum(line.startswith("--- 20") for line in lines) == 1
        act(fairway_hub.kubeconfig, lambda client: put(client, [cluster("c2")]))
        lines = []
        while not lines or not lines[-1].startswith("on the hub: c1, which differs"):
            lines.append(watched.line())
        assert lines[-3].startswith("ns1/web: 2 clusters")
        act(fairway_hub.kubeconfig, lambda client: remove(client, placement("web")))
        while not lines[-1].startswith("placement ns1/web not found"):
            lines.append(watched.line())
        assert watched.interrupt() == (130, "")


def test_explain_watch_json_prints_a_document_when_a_score_expires(
    tmp_path: Path, fairway_hub: HubAddress
) -> None:
    exact = policy(addon("cpu"), mode="Exact")
    fill(
        fairway_hub.kubeconfig,
        cluster_set("default"),
        binding("default"),
        cluster("c1"),
        cluster("c2"),
        score("c1", {"cpu": 50}),
        score("c2", {"cpu": 10}),
        placement("web", spec=PlacementSpec(numberOfClusters=1, prioritizerPolicy=exact)),
    )
    arguments = ("explain", "placement", "ns1/web", "--watch", "-o", "json")
    with watch(tmp_path, fairway_hub.kubeconfig, *arguments) as watched:
        assert [document["cluster"] for document in watched.documents(1)[0]["chosen"]] == ["c1"]
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)

        async def end(client: Client) -> None:
            await write_status(client, score("c1", {}), {"validUntil": until.strftime("%Y-%m-%dT%H:%M:%SZ")})
            # Nothing that matters to it: no answer.
            await merge(client, cluster("c1"), {"metadata": {"annotations": {"a": "b"}}})

        act(fairway_hub.kubeconfig, end)
        assert [document["cluster"] for document in watched.documents(1)[0]["chosen"]] == ["c2"]
        assert datetime.now(UTC) > until


def test_explain_watch_of_an_unknown_name_exits_2(tmp_path: Path, fairway_hub: HubAddress) -> None:
    with watch(tmp_path, fairway_hub.kubeconfig, "explain", "placement", "web", "--watch") as watched:
        assert watched.process.wait() == 2
        assert f"hub {fairway_hub.url} has no Placement; " in watched.errors.read_text()
    fill(fairway_hub.kubeconfig, placement("web"))
    with watch(tmp_path, fairway_hub.kubeconfig, "explain", "placement", "wbe", "--watch") as watched:
        assert watched.process.wait() == 2
        assert "did you mean ns1/web?" in watched.errors.read_text()


def test_explain_shows_the_queue_of_controllers_on_this_machine(
    hub: HubAddress, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {
        "placement": NAME,
        "state": "error backoff",
        "since": "2026-01-01T12:00:00Z",
        "added": "2026-01-01T11:00:00Z",
        "attempts": 7,
        "trigger": "error",
        "reasons": ["hub refused the write (403)"],
        "wakes": ["taints changes", "a change of its own spec"],
        "nextTry": "2026-01-01T12:01:00Z",
        "leading": True,
    }
    asked: list[object] = []

    def answer(server: str, *, namespace: str, name: str) -> dict[str, object]:
        asked.append((server, namespace, name))
        return state

    monkeypatch.setattr("fairway.cli.explain.queue.ask_locally", answer)
    assert explain(hub, NAME) == 0
    assert capsys.readouterr().out.splitlines()[-7:] == [
        "In the queue",
        "  error backoff since 2026-01-01T12:00:00Z, tried 7 times: error",
        "  reason: hub refused the write (403)",
        "  tried again at 2026-01-01T12:01:00Z, even if nothing changes",
        "  what would wake it:",
        "    taints changes",
        "    a change of its own spec",
    ]
    assert explain(hub, NAME, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["queue"] == state
    assert asked == [(hub.url, *NAME.split("/"))] * 2
    state["leading"] = False
    assert explain(hub, NAME) == 0
    assert "  from a standby; the leader runs elsewhere" in capsys.readouterr().out.splitlines()
