"""The lines of `fairway up` about the decision of its example."""

from datetime import UTC, datetime

from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec
from fairway.cli.client.moves import traces
from fairway.cli.up.demo import Moves
from fairway.testing.builders import addon, cluster, policy, score
from strategies import NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub


def test_move_names_why_each_cluster_left_the_decision() -> None:
    moves = Moves(KEY)

    def describe(*objects: object) -> str:
        hosts = traces(hub(*objects, spec=PlacementSpec()), KEY, now=NOW_MICROS)
        selected = [name for name, host in hosts.items() if host.selected]
        return ", ".join(line.strip() for line in moves.describe(selected, hosts, now=datetime.now(UTC))[1:])

    describe(cluster("a"), cluster("b"), cluster("c"))
    tainted = cluster("b", taints=[Taint(key="k", effect="NoSelect")])
    reason = "has taint k:NoSelect, which the placement does not tolerate"
    assert describe(cluster("a"), tainted, cluster("c")) == f"-b (TaintToleration: {reason})"
    assert describe(cluster("a"), tainted) == "-c (the cluster was deleted)"


def test_move_names_changed_and_expired_scores() -> None:
    moves = Moves(KEY)
    spec = PlacementSpec(
        numberOfClusters=1,
        prioritizerPolicy=policy(addon("cpu", resource="usage"), mode="Exact"),
    )

    def describe(*objects: object) -> str:
        hosts = traces(hub(cluster("a"), cluster("b"), *objects, spec=spec), KEY, now=NOW_MICROS)
        selected = [name for name, host in hosts.items() if host.selected]
        return ", ".join(line.strip() for line in moves.describe(selected, hosts, now=datetime.now(UTC))[1:])

    other = score("b", {"cpu": 33}, name="usage")
    describe(score("a", {"cpu": 43}, name="usage"), other)
    changed = describe(score("a", {"cpu": 31}, name="usage"), other)
    assert changed == "+b (rank 1, 33 points), -a (rank 2, 31 points, was 43)"
    describe(score("a", {"cpu": 43}, name="usage"), other)
    expired = score("a", {"cpu": 43}, name="usage", valid_until=datetime(2020, 1, 1, tzinfo=UTC))
    assert describe(expired, other) == (
        "+b (rank 1, 33 points), "
        "-a (rank 2, 0 points, was 43; AddOnPlacementScore usage expired at 2020-01-01T00:00:00Z, which counts 0)"
    )
