"""The lines of `fairway up` about the decision of its example."""

from datetime import UTC, datetime

from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec
from fairway.cli.up.demo import Moves
from fairway.testing.builders import cluster
from fairway.whatif.explain import explain
from plugins.verdicts import KEY, hub
from strategies import NOW_MICROS


def test_move_names_why_each_cluster_left_the_decision() -> None:
    moves = Moves(KEY)

    def describe(*objects: object) -> str:
        found = explain(hub(*objects, spec=PlacementSpec()), KEY, now=NOW_MICROS)
        selected = [each.host for each in found.chosen]
        return moves.describe(selected, found, now=datetime.now(UTC))[-1].partition(": ")[2]

    describe(cluster("a"), cluster("b"), cluster("c"))
    tainted = cluster("b", taints=[Taint(key="k", effect="NoSelect")])
    reason = "has taint k:NoSelect, which the placement does not tolerate"
    assert describe(cluster("a"), tainted, cluster("c")) == f"-b (TaintToleration: {reason})"
    assert describe(cluster("a"), tainted) == "-c (the cluster was deleted)"
