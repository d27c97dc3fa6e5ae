"""A small fleet whose placement moves with the scores, recorded."""

from fairway.api.placement import PlacementSpec
from fairway.engine import cycle
from fairway.history.recorder import Recorder
from fairway.hosts.instant import SECOND, Micros
from fairway.testing import builders
from fairway.whatif.world import World
from fairway.workloads.placement.verdict import conclude
from strategies import NOW_MICROS

KEY = ("ns1", "web")


class MovingPlacement:
    """Selects the cluster with the higher score: first ``a``, then ``b``, and so on."""

    def __init__(self, recorder: Recorder) -> None:
        policy = builders.policy(builders.addon("cpu"), mode="Exact")
        self.world = World(
            [
                builders.cluster_set("default"),
                builders.binding("default"),
                *(builders.cluster(name) for name in "ab"),
                builders.placement(KEY[1], spec=PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy)),
            ]
        )
        self._recorder, self._moves = recorder, 0

    def move(self, *, at: Micros | None = None, error: str = "") -> str | None:
        """Record a decision for the other cluster. Return the record's id; None if it is lost at once."""
        best = self._moves % 2
        for number, name in enumerate("ab"):
            self.world.put(builders.score(name, {"cpu": 90 if number == best else 10}))
        now = NOW_MICROS + self._moves * SECOND if at is None else at
        self._moves += 1
        workload = self.world.workload(KEY)
        outcome = cycle.run(self.world.fleet.snapshot(), workload, self.world.profile, now=now)
        verdict = conclude(outcome, workload)
        decided = self._recorder.placement(
            outcome, pages=verdict.pages, status=verdict.status, cause=f"move {self._moves}"
        )
        plan = self.world.plan(KEY, verdict, now=now)
        self.world.write(plan, plan.steps)
        if decided is None:
            return None
        if error:
            decided.abandoned(error)
        else:
            decided.written()
        return decided.id
