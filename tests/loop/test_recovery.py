"""Recovery: neither a decision nor a change holds the loop, however many clusters are low at once."""

from functools import partial

from fairway.api.clusterset import ManagedClusterSet
from fairway.controllers.recovery.cluster_sets import SetsByCluster
from fairway.controllers.recovery.decision import ClusterObserved, Event, HealthReported, HealthUnobserved
from fairway.controllers.recovery.policy import Budget, RecoveryPolicy
from fairway.controllers.recovery.state_machine import RecoveryStateMachine
from fairway.controllers.runtime.slicing import in_slices
from kubewire.api.meta import ObjectMeta
from loop.clocks import SlowClock
from loop.steps import CLUSTERS, Longest, check_bounded, longest_call, longest_callback

SETS = 50
LATE = 1e7
ALL = Budget(percent=100)


def low_clusters(count: int) -> RecoveryStateMachine:
    """All clusters but one are low, long enough to be due, and the budgets have room for all."""
    machine = RecoveryStateMachine(RecoveryPolicy(fleet=ALL, per_set=ALL, suspect_window=1e-9))
    for number in range(count):
        of = frozenset({f"s{number % SETS}", "global"})
        machine.handle(ClusterObserved(cluster=f"c{number}", sets=of), now=0)
        machine.handle(HealthReported(cluster=f"c{number}", score=0), now=float(number))
    machine.handle(ClusterObserved(cluster="well"), now=0)
    return machine


def test_low_clusters_become_due_in_slices() -> None:
    check_bounded(
        lambda count: longest_callback(in_slices(low_clusters(count).advance(now=LATE), clock=SlowClock())),
        sizes=(200, 800),
        limit=CLUSTERS,
    )


def test_decision_and_census_are_short_with_all_clusters_low() -> None:
    def longest(count: int) -> Longest:
        machine = low_clusters(count)
        machine.decide("c0", now=LATE)
        return longest_call(
            partial(machine.decide, f"c{count - 1}", now=LATE),
            partial(machine.admitted, now=LATE),
            partial(machine.due, now=LATE, limit=20),
            partial(machine.count_due, now=LATE),
            machine.census,
        )

    check_bounded(longest, sizes=(500, 2000), limit=CLUSTERS)


def test_event_is_short_with_all_clusters_low() -> None:
    def longest(count: int) -> Longest:
        machine = low_clusters(count)
        machine.decide("c0", now=LATE)
        events: list[Event] = [
            HealthReported(cluster="c7", score=20),
            HealthReported(cluster="c8", score=100),
            ClusterObserved(cluster="c9", sets=frozenset({"s9", "global"}), tainted=True),
            HealthUnobserved(),
        ]
        return longest_call(*(partial(machine.handle, event, now=LATE) for event in events))

    check_bounded(longest, sizes=(500, 2000), limit=CLUSTERS)


def test_changed_set_is_matched_in_slices() -> None:
    def longest(count: int) -> Longest:
        sets = SetsByCluster()
        for number in range(count):
            sets.put_cluster(f"c{number}", {"cluster.open-cluster-management.io/clusterset": "all"})
        moved: list[str] = []
        everything = ManagedClusterSet(metadata=ObjectMeta(name="all"))
        return longest_callback(in_slices(sets.put_set(everything, moved=moved.append), clock=SlowClock()))

    check_bounded(longest, sizes=(200, 800), limit=CLUSTERS)


def test_cluster_is_matched_without_a_visit_to_each_set() -> None:
    def longest(count: int) -> Longest:
        sets = SetsByCluster()
        for number in range(count):
            source = ManagedClusterSet(metadata=ObjectMeta(name=f"s{number}"))
            for _ in sets.put_set(source, moved=lambda _: None):
                pass
        labels = {"cluster.open-cluster-management.io/clusterset": "s0"}
        return longest_call(partial(sets.put_cluster, "c0", labels))

    assert longest(400).steps == longest(10).steps
