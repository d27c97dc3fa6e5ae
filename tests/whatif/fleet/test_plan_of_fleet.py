"""A plan of a fleet equals what the placement controller does when the change arrives, and changes nothing."""

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controllers.chaos.expected_decisions import KINDS
from controllers.chaos.inventor import Inventor
from controllers.steps.simulation import Simulation
from fairway.api.kinds import KubeObject
from fairway.api.placement import PlacementSpec
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.hosts.instant import to_micros
from fairway.testing import builders
from fairway.whatif.fleet import FleetPlan, make
from fairway.whatif.fleet.changes import Changed, ChangeError, Editor
from fairway.whatif.world import Key, clusters_of
from fairway.workloads.placement import default_profile
from strategies import NOW

RESOURCES = {resource.kind: resource for resource in KINDS}


class Hub(Simulation):
    """A hub on which the controller decides the placements that are ready in the order of their names."""

    def ready(self) -> list[tuple[str, str]]:
        return sorted(super().ready())

    def fill(self, seed: int) -> None:
        # Without expiry: a plan is for one moment. Without Balance: the controller may decide in another order.
        invent = Inventor(random.Random(seed), now=self.clock.now, balance=False, ages=(600,))
        for _ in range(12):
            self.hub.put(RESOURCES["ManagedCluster"], invent.cluster())
            self.hub.put(RESOURCES["AddOnPlacementScore"], invent.score())
        for _ in range(8):
            self.hub.put(PLACEMENTS, invent.placement())
        self.come_to_rest()

    def objects(self) -> list[KubeObject]:
        return [thing for kind in KINDS for thing in self.hub.all(kind).values()]

    def decisions(self) -> dict[Key, frozenset[str]]:
        pages = self.hub.all(PLACEMENT_DECISIONS).values()
        owned: dict[Key, list[Any]] = {key: [] for key in self.hub.all(PLACEMENTS)}
        for page in pages:
            name = page.metadata.labels["cluster.open-cluster-management.io/placement"]
            owned[page.metadata.namespace, name].append(page)
        return {key: frozenset(clusters_of(own) or ()) for key, own in owned.items()}

    def apply(self, changes: Sequence[Changed]) -> None:
        for change in changes:
            self.hub.put(RESOURCES[change.after.kind], change.after)
        self.come_to_rest()


def change(hub: Hub, chance: random.Random) -> tuple[Changed, ...]:
    editor = Editor(hub.objects())
    clusters = [name for _, name in hub.hub.all(RESOURCES["ManagedCluster"])]
    placements = ["/".join(key) for key in hub.hub.all(PLACEMENTS)]
    for _ in range(chance.randint(1, 2)):
        match chance.randrange(5):
            case 0:
                editor.drain(chance.choice(clusters), now=hub.clock.now)
            case 1:
                try:
                    editor.lose(f"region={chance.choice(('eu', 'us', 'ap'))}", now=hub.clock.now)
                except ChangeError:
                    editor.lose("", now=hub.clock.now)
            case 2:
                prioritizer = chance.choice(("Steady", "AddOn/default/cpu", "ResourceAllocatableCPU"))
                weight = chance.randint(-10, 10)
                editor.set_weight(f"{chance.choice(placements)}:{prioritizer}={weight}")
            case 3:
                editor.add_clusters(chance.randint(1, 3))
            case 4:
                invent = Inventor(chance, now=hub.clock.now, balance=False, ages=(600,))
                for thing in (invent.cluster(), invent.score(), invent.placement()):
                    old = editor.existing(thing)
                    if old is None or thing.kind != "Placement":
                        editor.put(thing, "apply")
    return editor.changes()


def plan_of(hub: Hub, changes: Sequence[Changed]) -> FleetPlan:
    return make(hub.objects(), changes, profile=default_profile(), now=to_micros(hub.clock.now))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
@example(seed=547)  # the only candidate with a score becomes infeasible, and the selection stays
def test_plan_equals_what_the_controller_does_and_changes_nothing(seed: int) -> None:
    hub = Hub()
    hub.fill(seed)
    before, objects = hub.decisions(), hub.objects()
    changes = change(hub, random.Random(seed))
    encoded = msgspec.json.encode(objects)
    plan = plan_of(hub, changes)
    assert msgspec.json.encode(objects) == encoded
    assert objects == hub.objects()
    hub.apply(changes)
    expected = dict(before)
    for move in plan.moves:
        assert frozenset(move.before or ()) == before.get(move.placement, frozenset())
        expected[move.placement] = frozenset(move.after)
    after = hub.decisions()
    assert {key: expected.get(key, frozenset()) for key in after} == after
    # Nothing else is left to do, and the decisions that the plan explains are those that it makes.
    assert not plan_of(hub, ()).moves
    for move in plan.moves:
        assert {trace.host for trace in move.reasons if trace.selected} == set(move.added)
        assert {trace.host for trace in move.reasons if not trace.selected} == set(move.removed)


def test_placements_that_read_nothing_that_changed_keep_outdated_decisions() -> None:
    objects: list[Any] = [
        builders.cluster_set("default"),
        builders.binding("default"),
        *(builders.cluster(name, labels={"tier": "gold"}) for name in ("a", "b")),
        builders.placement("stale", spec=PlacementSpec(numberOfClusters=1)),
        builders.decision("stale-decision-1", ["a", "b"], placement="stale"),
    ]
    profile, now = default_profile(), to_micros(NOW)
    editor = Editor(objects)
    editor.put(builders.score("a", {"cpu": 5}), "apply")
    assert not make(objects, editor.changes(), profile=profile, now=now).moves
    editor = Editor(objects)
    editor.drain("b", now=NOW + timedelta(seconds=1))
    (move,) = make(objects, editor.changes(), profile=profile, now=now).moves
    assert (move.after, move.due) == (("a",), True)
