"""Quarantine of plugins with repeated faults."""

from fairway.scheduling.quarantine import (
    FIRST_SECONDS,
    FORGIVEN_SECONDS,
    LONGEST_SECONDS,
    MOST_FAULTS,
    Quarantine,
)


def test_quarantine_begins_after_faults_in_a_row_and_ends_by_time() -> None:
    quarantine = Quarantine()
    began = [quarantine.failed("Bad", now=float(at)) for at in range(MOST_FAULTS)]
    assert began == [None] * (MOST_FAULTS - 1) + [FIRST_SECONDS]
    last = float(MOST_FAULTS - 1)
    assert quarantine.until("Bad", now=last) == last + FIRST_SECONDS
    assert quarantine.until("Bad", now=last + FIRST_SECONDS) is None
    assert quarantine.until("Good", now=last) is None


def test_success_ends_the_row_of_faults() -> None:
    quarantine = Quarantine()
    for _ in range(3):
        for _ in range(MOST_FAULTS - 1):
            assert quarantine.failed("Flaky", now=0.0) is None
        quarantine.succeeded("Flaky")


def test_one_stall_is_enough_for_quarantine() -> None:
    assert Quarantine().failed("Slow", now=0.0, stalled=True) == FIRST_SECONDS


def test_first_fault_after_quarantine_doubles_it_up_to_a_limit() -> None:
    quarantine = Quarantine()
    now = 0.0
    durations: list[float] = []
    for _ in range(9):
        seconds = quarantine.failed("Bad", now=now, stalled=not durations)
        assert seconds is not None
        durations.append(seconds)
        now += seconds
    assert durations[:4] == [10.0, 20.0, 40.0, 80.0]
    assert durations[-1] == LONGEST_SECONDS


def test_plugin_without_faults_for_a_while_starts_from_the_beginning() -> None:
    quarantine = Quarantine()
    assert quarantine.failed("Bad", now=0.0, stalled=True) == FIRST_SECONDS
    now = FIRST_SECONDS + FORGIVEN_SECONDS
    assert quarantine.failed("Bad", now=now) is None
    assert quarantine.failed("Bad", now=now, stalled=True) == FIRST_SECONDS
