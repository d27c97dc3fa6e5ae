"""Small plugins and a small workload for tests of the engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairway.engine.points import Context, Prioritization, Scorers, Weighted
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.clusters import Fleet
from fairway.testing.builders import cluster


@dataclass(frozen=True)
class Work:
    wanted: int | None = None
    namespace: str = "ns"
    name: str = "work"


def fleet_of(*names: str) -> Fleet:
    fleet = Fleet()
    fleet.load([cluster(name) for name in names])
    return fleet


def name_of(context: Context, row: int) -> str:
    return context.snapshot.hosts.names[row]


@dataclass
class Admit:
    """A PreFilter that admits the named hosts, all for None."""

    names: Sequence[str] | None
    status: Status = OK
    name: str = "Admit"

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        if self.names is None:
            return self.status, None
        rows = context.snapshot.rows_named(list(self.names))
        return self.status, bitmap.from_rows(rows, context.snapshot.capacity)

    def admits(self, context: Context, row: int, /) -> Status:
        if self.status.aborts or self.names is None or name_of(context, row) in self.names:
            return self.status
        return unschedulable("is not admitted", plugin=self.name)


@dataclass
class Refuse:
    """A per-host Filter that rejects the named hosts, and records its calls."""

    names: Sequence[str] = ()
    name: str = "Refuse"
    say: Callable[[str], Status] | None = None
    asked: list[str] = field(default_factory=list)

    def filter(self, context: Context, row: int, /) -> Status:
        host = name_of(context, row)
        self.asked.append(host)
        if self.say is not None:
            return self.say(host)
        return unschedulable(f"{host} is refused", plugin=self.name) if host in self.names else OK


@dataclass
class Points:
    """A per-host Score."""

    points: dict[str, int]
    name: str = "Points"

    def score(self, context: Context, row: int, /) -> int | None:
        return self.points.get(name_of(context, row))


@dataclass
class Prepared(Points):
    """A Score with a PreScore of a given status."""

    status: Status = OK
    seen: list[list[str]] = field(default_factory=list)

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        self.seen.append([name_of(context, row) for row in rows.tolist()])
        return self.status


@dataclass(eq=False)
class Policy:
    """A Prioritize that gives registered Score plugins these weights, by workload."""

    weights: Mapping[str, Mapping[str, int]]
    refusal: Status | None = None
    name: str = "Policy"
    kept: dict[str, Prioritization] = field(default_factory=dict)

    def prioritize(self, context: Context, scorers: Scorers, /) -> Prioritization:
        workload = context.workload.name
        if workload not in self.kept:
            weights = self.weights.get(workload, {})
            scores = tuple(Weighted(scorers.registered[name], weight) for name, weight in weights.items())
            self.kept[workload] = Prioritization(scores=scores or scorers.defaults, refusal=self.refusal)
        return self.kept[workload]


def rows(*numbers: int) -> Rows:
    return np.array(numbers, dtype=np.int64)
