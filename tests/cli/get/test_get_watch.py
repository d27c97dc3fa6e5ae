"""`fairway get --watch` as a process, on a hub that changes and restarts."""

import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
import yaml
from msgspec import structs

import forked
from cli.live_hub import act, fill, merge, put, remove, watch, write_status
from fairway.api.decision import ClusterDecision, PlacementDecisionStatus
from fairway.api.kinds import KubeObject
from fairway.api.placement import PlacementSpec
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.cli.client.watch import ChangeSignal, Feed, Observe
from fairway.cli.get import listing
from fairway.cli.get.placements import DROPPED, Decisions
from fairway.cli.get.view import Wanted
from fairway.testing.builders import addon, binding, cluster, cluster_set, decision, placement, policy, score
from fairway.testing.hub import HubAddress
from kubewire.client import Added, Client, Forbidden
from rigs.processes import Port

HEADER = "NAME  ACCEPTED  AVAILABLE  CLUSTERSET  CPU  MEMORY  KUBERNETES VERSION"


def test_get_watch_prints_changed_rows(tmp_path: Path, fairway_hub: HubAddress) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1", version="v1.30.0"), cluster("c2"))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "clusters", "-w") as watched:
        assert watched.lines(3) == [
            HEADER,
            "c1    true      -          default     -    -       v1.30.0",
            "c2    true      -          default     -    -       -",
        ]

        async def change(client: Client) -> None:
            # A label is no column, so it is no news.
            await merge(client, cluster("c2"), {"metadata": {"labels": {"a": "b"}}})
            await write_status(client, cluster("c1"), {"version": {"kubernetes": "v1.31.0"}})

        act(fairway_hub.kubeconfig, change)
        assert watched.line() == "c1    true      -          default     -    -       v1.31.0"
        act(fairway_hub.kubeconfig, lambda client: put(client, [cluster("a-much-longer-name")]))
        assert watched.line() == "a-much-longer-name  true      -          default     -    -       -"
        act(fairway_hub.kubeconfig, lambda client: remove(client, cluster("c1")))
        assert (
            watched.line()
            == "c1    true      -          default     -    -       v1.31.0             (deleted)"
        )
        assert watched.interrupt() == (130, "")


def test_get_watch_reports_a_cluster_that_leaves_the_selection(
    tmp_path: Path, fairway_hub: HubAddress
) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1", labels={"region": "eu"}), cluster("c2"))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "clusters", "-w", "-l", "region=eu") as watched:
        assert [line.split()[0] for line in watched.lines(2)] == ["NAME", "c1"]
        act(
            fairway_hub.kubeconfig,
            lambda client: merge(client, cluster("c1"), {"metadata": {"labels": {"region": "us"}}}),
        )
        assert watched.line().split()[-1] == "(deleted)"
        act(
            fairway_hub.kubeconfig,
            lambda client: merge(client, cluster("c2"), {"metadata": {"labels": {"region": "eu"}}}),
        )
        assert watched.line().split()[0] == "c2"


def test_get_decisions_watch_prints_a_line_for_each_move(tmp_path: Path, fairway_hub: HubAddress) -> None:
    page = decision("web-decision-1", ["c1", "c2"], placement="web")
    fill(fairway_hub.kubeconfig, page, decision("other-decision-1", ["c9"], placement="other"))
    arguments = ("get", "decisions", "web", "-n", "ns1", "-w", "--output-watch-events")
    with watch(tmp_path, fairway_hub.kubeconfig, *arguments) as watched:
        assert [line.split()[1:2] + line.split()[4:6] for line in watched.lines(3)] == [
            ["EVENT", "GROUP", "CLUSTER"],
            ["ADDED", "-", "c1"],
            ["ADDED", "-", "c2"],
        ]

        async def move(client: Client) -> None:
            # The same cluster on another page is no news.
            await put(client, [decision("web-decision-2", ["c2", "c3"], placement="web")])
            decisions = [ClusterDecision(clusterName="c1", reason="best", score=7)]
            await write_status(
                client, page, {"decisions": [structs.asdict(decision) for decision in decisions]}
            )

        act(fairway_hub.kubeconfig, move)
        lines = [watched.line().split() for _ in range(2)]
        assert sorted((line[1], line[5]) for line in lines) == [("ADDED", "c3"), ("MODIFIED", "c1")]
        assert all(datetime.fromisoformat(line[0]).tzinfo is UTC for line in lines)
        act(fairway_hub.kubeconfig, lambda client: remove(client, page))
        dropped = watched.line().split(maxsplit=7)
        assert (dropped[1], dropped[5:]) == ("DELETED", ["c1", "-", DROPPED])


def by_free_cpu(*objects: KubeObject) -> list[KubeObject]:
    """Return a placement of the cluster with the most free CPU, and its decision for c1."""
    spec = PlacementSpec(
        numberOfClusters=1,
        prioritizerPolicy=policy(addon("cpu", resource="usage"), mode="Exact"),
    )
    page = decision("web-decision-1", [], placement="web")
    selected = PlacementDecisionStatus(decisions=(ClusterDecision(clusterName="c1", score=43),))
    return [
        *(cluster(name) for name in ("c1", "c2")),
        *(cluster_set("default"), binding("default"), placement("web", spec=spec)),
        structs.replace(page, status=selected),
        *objects,
    ]


async def select_c2(client: Client) -> None:
    page = decision("web-decision-1", [], placement="web")
    chosen = {"clusterName": "c2", "reason": "best", "score": 33}
    await write_status(client, page, {"decisions": [chosen]})


def test_get_decisions_watch_names_the_changed_score_of_a_dropped_cluster(
    tmp_path: Path, fairway_hub: HubAddress
) -> None:
    old = score("c1", {"cpu": 43}, name="usage")
    fill(fairway_hub.kubeconfig, *by_free_cpu(old, score("c2", {"cpu": 33}, name="usage")))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "decisions", "-n", "ns1", "-w") as watched:
        assert watched.lines(2)[1].split()[-3:-1] == ["c1", "43"]

        async def move(client: Client) -> None:
            await write_status(client, old, {"scores": [{"name": "cpu", "value": 31}]})
            await select_c2(client)

        act(fairway_hub.kubeconfig, move)
        added, dropped = watched.lines(2)
        assert added.split()[-3:] == ["c2", "33", "best"]
        assert dropped.split(maxsplit=4)[4] == "c1       31     rank 2, 31 points, was 43  (deleted)"


def test_get_decisions_watch_names_the_expired_score_of_a_dropped_cluster(
    tmp_path: Path, fairway_hub: HubAddress
) -> None:
    old = score("c1", {"cpu": 43}, name="usage")
    fill(fairway_hub.kubeconfig, *by_free_cpu(old, score("c2", {"cpu": 33}, name="usage")))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "decisions", "-n", "ns1", "-w") as watched:
        watched.lines(2)

        async def move(client: Client) -> None:
            await write_status(client, old, {"validUntil": "2026-01-01T00:00:00Z"})
            await select_c2(client)

        act(fairway_hub.kubeconfig, move)
        dropped = watched.lines(2)[1]
        why = "AddOnPlacementScore usage expired at 2026-01-01T00:00:00Z, which counts 0"
        assert dropped.split(maxsplit=4)[4] == f"c1       0      rank 2, 0 points, was 43; {why}  (deleted)"


def test_get_watch_prints_a_score_when_it_expires(tmp_path: Path, fairway_hub: HubAddress) -> None:
    """No object changes at that moment."""
    fill(fairway_hub.kubeconfig, score("c1", {"cpu": 5}), score("c2", {"cpu": 6}))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "scores", "-w") as watched:
        assert [line.split()[0] for line in watched.lines(3)] == ["CLUSTER", "c1", "c2"]
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
        said = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        act(
            fairway_hub.kubeconfig, lambda client: write_status(client, score("c1", {}), {"validUntil": said})
        )
        line = watched.line()
        while "EXPIRED" not in line:
            assert line.split()[:5] == ["c1", "default", "cpu", "5", said]
            line = watched.line()
        assert line.split()[:6] == ["c1", "default", "cpu", "5", said, "EXPIRED"]
        assert datetime.now(UTC) > until


def test_get_placements_watch_follows_decisions(tmp_path: Path, fairway_hub: HubAddress) -> None:
    page = decision("web-decision-1", ["c1"], placement="web")
    fill(fairway_hub.kubeconfig, placement("web"))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "placements", "-n", "ns1", "-w") as watched:
        assert watched.lines(2)[1].split() == ["web", "-", "-", "-"]
        act(fairway_hub.kubeconfig, lambda client: put(client, [page]))
        assert watched.line().split() == ["web", "-", "-", "c1"]


def test_get_watch_json_prints_a_document_per_change(tmp_path: Path, fairway_hub: HubAddress) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1"), cluster("c2"), cluster("c3"))
    arguments = ("get", "clusters", "c1", "c2", "-w", "-o", "json", "--output-watch-events")
    with watch(tmp_path, fairway_hub.kubeconfig, *arguments) as watched:
        first = watched.documents(2)
        act(fairway_hub.kubeconfig, lambda client: merge(client, cluster("c3"), {"metadata": {"labels": {}}}))
        act(fairway_hub.kubeconfig, lambda client: remove(client, cluster("c3")))
        act(
            fairway_hub.kubeconfig,
            lambda client: merge(client, cluster("c2"), {"metadata": {"labels": {"a": "b"}}}),
        )
        act(fairway_hub.kubeconfig, lambda client: remove(client, cluster("c1")))
        events = [
            (document["type"], document["object"]["metadata"]["name"])
            for document in [*first, *watched.documents(2)]
        ]
        assert events == [("ADDED", "c1"), ("ADDED", "c2"), ("MODIFIED", "c2"), ("DELETED", "c1")]


def test_get_watch_yaml_documents_are_separated(tmp_path: Path, fairway_hub: HubAddress) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1"))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "clusters", "-w", "-o", "yaml") as watched:
        lines: list[str] = []
        while not lines or not lines[-1].startswith("  uid: "):
            lines.append(watched.line())
        act(fairway_hub.kubeconfig, lambda client: put(client, [cluster("c2")]))
        while lines.count("---") < 1 or not lines[-1].startswith("  uid: "):
            lines.append(watched.line())
        assert [document["metadata"]["name"] for document in yaml.safe_load_all("\n".join(lines))] == [
            "c1",
            "c2",
        ]


def test_get_watch_of_an_unknown_name_exits_2(tmp_path: Path, fairway_hub: HubAddress) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1"))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "clusters", "c2", "-w") as watched:
        assert watched.process.wait() == 2
        assert watched.errors.read_text() == "fairway: cluster c2 not found; known: c1\n"


def test_get_watch_ends_when_its_reader_closes_the_pipe(tmp_path: Path, fairway_hub: HubAddress) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1"))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "clusters", "-w") as watched:
        watched.lines(2)
        assert watched.process.stdout is not None
        watched.process.stdout.close()
        assert watched.process.wait() == 0
        assert watched.errors.read_text() == ""


def start(folder: Path, port: Port) -> forked.Process:
    """Start `fairway hub` with a data folder."""
    process = forked.Process(
        ["hub", "--data", folder, "--port", port], stdout=forked.PIPE, env={**os.environ, "FAIRWAY_DEBUG": ""}
    )
    assert process.stdout is not None
    while "Ctrl-C" not in process.stdout.readline():
        assert process.poll() is None
    return process


def test_get_watch_continues_after_a_hub_restart(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    kubeconfig = folder / "admin.kubeconfig"
    with Port() as port:
        hub = start(folder, port)
        try:
            fill(kubeconfig, cluster("c1"), cluster("c2"))
            with watch(tmp_path, kubeconfig, "get", "clusters", "-w") as watched:
                assert [line.split()[0] for line in watched.lines(3)] == ["NAME", "c1", "c2"]
                with hub:
                    hub.send_signal(signal.SIGTERM)
                hub = start(folder, port)
                # Known objects are not printed again.
                act(kubeconfig, lambda client: remove(client, cluster("c2")))
                assert watched.line().split()[0::7] == ["c2", "(deleted)"]
                act(kubeconfig, lambda client: put(client, [cluster("c3")]))
                assert watched.line().split()[0] == "c3"
                assert watched.interrupt()[0] == 130
        finally:
            with hub:
                hub.kill()


async def test_get_decisions_watch_names_no_cause_without_access_to_the_fleet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = Forbidden("managedclusters is forbidden", code=403)

    @asynccontextmanager
    async def following(
        _client: Client, feeds: Sequence[Feed], observe: Observe
    ) -> AsyncIterator[ChangeSignal]:
        if any(feed.resource is MANAGED_CLUSTERS for feed in feeds):
            raise refusal
        observe(Added(decision("web-decision-1", ["c1"], placement="web")))
        changes = ChangeSignal()
        changes.abandon()
        yield changes

    monkeypatch.setattr(listing, "following", following)
    with pytest.raises(BrokenPipeError):
        await listing.watch(cast("Client", None), Decisions(Wanted()), "table", events=False)
    output = capsys.readouterr()
    assert "c1" in output.out
    assert output.err == listing.NO_CAUSES.format(reason=refusal) + "\n"
