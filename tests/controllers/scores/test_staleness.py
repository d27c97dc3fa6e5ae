"""Renewing providers are never declared silent, dead ones are detected, and no values are lost."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings
from msgspec import structs

from fairway.api.score import AddOnPlacementScore, AddOnPlacementScoreItem, AddOnPlacementScoreStatus
from fairway.controllers.scores import Silence, SilencePolicy, silence_marker
from fairway.controllers.scores.keys import ScoreKey
from fairway.controllers.scores.silence_marker import BEFORE
from fairway.controllers.scores.staleness import Returned, Silent, StalenessTracker
from fairway.hosts.clusters.scores import is_silent
from fairway.testing.builders import cluster
from kubewire.api.meta import ObjectMeta

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
STEP = 5.0
KEY = ScoreKey("c", "usage")


@dataclass
class Provider:
    """Publishes every ``interval`` seconds while it lives, for three of them, as the SDK does."""

    interval: float
    value: int = 0
    due: float = 0.0

    @property
    def lasts(self) -> float:
        return max(3 * self.interval, 180.0)


@dataclass
class ProviderSimulation:
    """One score, its provider and the staleness tracker, advanced in steps."""

    provider: Provider
    policy: SilencePolicy
    now: float = 0.0
    score: AddOnPlacementScore | None = None
    marked: int = 0
    tracker: StalenessTracker = field(init=False)
    published: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tracker = StalenessTracker(self.policy)
        self.tracker.record_watch_gap(0.0)

    @property
    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def step(self, *, alive: bool) -> None:
        self.now += STEP
        if alive and self.now >= self.provider.due:
            self._publish()
        self._keep_watch()

    def _publish(self) -> None:
        self.provider.due = self.now + self.provider.interval
        self.provider.value = (self.provider.value + 7) % 100
        self.published = {"cpu": self.provider.value}
        old = self.score or AddOnPlacementScore(metadata=ObjectMeta(name="usage", namespace="c"))
        status = structs.replace(
            old.status,
            scores=(AddOnPlacementScoreItem(name="cpu", value=self.provider.value),),
            validUntil=(self.wall + timedelta(seconds=self.provider.lasts)).replace(microsecond=0),
        )
        until = old.status.validUntil
        self.score = structs.replace(old, status=status)
        in_time = until is not None and until >= self.wall
        self.tracker.observe(KEY, self.score, now=self.now, in_time=in_time)

    def _keep_watch(self) -> None:
        if self.score is None:
            return
        verdict = self.tracker.judge(self.score, cluster("c"), now=self.now, wall=self.wall)
        if isinstance(verdict, Silent):
            self.marked += 1
            note = {BEFORE: silence_marker.annotation_of(self.score, self.policy)}
            body = silence_marker.silent_status(
                self.score, self.policy, reason=verdict.reason, since=verdict.since, clock=_At(self.wall)
            )
            self._write(body, annotations=note)
        elif isinstance(verdict, Returned):
            original = silence_marker.original_values(self.score)
            assert original is not None
            assert original.valid_until is not None
            late = (self.wall - original.valid_until).total_seconds()
            self.tracker.record_return(KEY, now=self.now, silent_for=late)
            self._write({"conditions": silence_marker.other_conditions(self.score)}, annotations={})

    def _write(self, status: dict[str, Any], *, annotations: dict[str, str]) -> None:
        assert self.score is not None
        whole = {**msgspec.to_builtins(self.score.status), **status}
        meta = structs.replace(self.score.metadata, annotations=annotations)
        read = msgspec.convert(whole, AddOnPlacementScoreStatus)
        self.score = structs.replace(self.score, metadata=meta, status=read)

    @property
    def values(self) -> dict[str, int]:
        return {} if self.score is None else {item.name: item.value for item in self.score.status.scores}


@dataclass(frozen=True)
class _At:
    moment: datetime

    def wall(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0


intervals = st.sampled_from([15.0, 60.0, 200.0])
graces = st.sampled_from([0.0, 10.0, 60.0, 300.0])
lives = st.lists(st.tuples(st.booleans(), st.integers(1, 250)), min_size=1, max_size=5)


def steps(spans: list[tuple[bool, int]]) -> Iterator[bool]:
    for alive, count in spans:
        yield from (alive for _ in range(count))


@given(interval=intervals, grace=graces, spans=lives)
@settings(max_examples=80)
def test_renewing_provider_is_never_declared_silent(
    interval: float, grace: float, spans: list[tuple[bool, int]]
) -> None:
    simulation = ProviderSimulation(Provider(interval), SilencePolicy(default=Silence.WORST, grace=grace))
    last = 0.0
    for alive in steps(spans):
        last = simulation.now if alive else last
        before = simulation.marked
        simulation.step(alive=alive)
        if simulation.marked > before:
            assert not alive
            assert simulation.now - last >= simulation.provider.lasts - interval, "it has not run out yet"
        if alive and simulation.score is not None and not is_silent(simulation.score):
            assert simulation.values == simulation.published


@given(interval=intervals, grace=graces, spans=lives)
@settings(max_examples=80)
def test_returning_provider_wins_and_dead_provider_is_detected(
    interval: float, grace: float, spans: list[tuple[bool, int]]
) -> None:
    simulation = ProviderSimulation(Provider(interval), SilencePolicy(default=Silence.WORST, grace=grace))
    for alive in steps(spans):
        simulation.step(alive=alive)
    due = max(simulation.now, simulation.provider.due) + STEP
    while simulation.now < due:
        simulation.step(alive=True)
    score = simulation.score
    assert score is not None
    assert (simulation.values, score.status.conditions, score.metadata.annotations) == (
        simulation.published,
        (),
        {},
    )
    published, renewed = simulation.published, 2
    for _ in range(round(renewed * interval / STEP) + 1):
        simulation.step(alive=True)  # in time, so that nothing is left of what it was forgiven before
        published = simulation.published
    for _ in range(round((simulation.provider.lasts + grace) / STEP) + 2):
        simulation.step(alive=False)
    assert simulation.values == {"cpu": -100}
    assert simulation.score is not None
    original = silence_marker.original_values(simulation.score)
    assert original is not None
    assert original.scores == published
