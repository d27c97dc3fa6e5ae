from datetime import UTC, datetime, timedelta

from fairway.providers.clock_steps import ClockSteps

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Clocks:
    """Two that need not agree."""

    def __init__(self) -> None:
        self.now, self.seconds = START, 50.0

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.seconds

    def passes(self, seconds: float, *, shown: float) -> None:
        self.seconds += seconds
        self.now += timedelta(seconds=shown)


def test_clock_step_back_is_reported_once() -> None:
    clocks = Clocks()
    steps = ClockSteps(clocks)
    assert steps.observe() == (START, timedelta(0))
    clocks.passes(60, shown=60)
    assert steps.observe()[1] == timedelta(0)
    clocks.passes(60, shown=-3540)
    assert steps.observe() == (START - timedelta(seconds=3480), timedelta(hours=1))
    assert steps.observe()[1] == timedelta(0)
    clocks.passes(60, shown=7200)  #  set forward, or suspended without counting
    assert steps.observe()[1] == timedelta(0)
    clocks.passes(60, shown=59.5)  # kept exact
    assert steps.observe()[1] == timedelta(0)
