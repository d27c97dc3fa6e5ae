"""Metrics of permits and migrations."""

from collections.abc import Callable
from functools import partial
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from fairway.observe.meters import REACTION_BUCKETS, Definition, Meters
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.relief import CAPACITY_NEEDED
from fairway.workloads.machines.state import EARMARK_EXPIRED, MachineState

REQUESTS: Final = Definition(
    name="fairway_machines_permit_requests_total",
    type="counter",
    meaning="Requests of agents for permits, by HTTP status.",
    labels=("code",),
)
REQUEST_SECONDS: Final = Definition(
    name="fairway_machines_permit_request_duration_seconds",
    type="histogram",
    meaning="Time from a request of an agent to the reply; the permit is written by then.",
    buckets=REACTION_BUCKETS,
)
WAIT_SECONDS: Final = Definition(
    name="fairway_machines_denied_duration_seconds",
    type="histogram",
    meaning="Time from the first denial of a machine's demand until all of it was granted or withdrawn.",
    buckets=(0.05, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0),
)
DENIED: Final = Definition(
    name="fairway_machines_denied",
    type="gauge",
    meaning="Machines with demand that is denied now.",
)
MIGRATIONS: Final = Definition(
    name="fairway_machines_migrations",
    type="gauge",
    meaning="Migrations under way, by phase.",
    labels=("phase",),
)
ENDED: Final = Definition(
    name="fairway_machines_migrations_ended_total",
    type="counter",
    meaning="Migrations that ended, by outcome: Cleaned (the machine moved), Cancelled (it was not needed), Failed.",
    labels=("outcome",),
)
ALERTS: Final = Definition(
    name="fairway_machines_alerts_total",
    type="counter",
    meaning="Alerts by reason: CapacityNeeded, EarmarkExpired.",
    labels=("reason",),
)
MACHINE_DEFINITIONS: Final = (REQUESTS, REQUEST_SECONDS, WAIT_SECONDS, DENIED, MIGRATIONS, ENDED, ALERTS)

_OUTCOMES: Final = (Phase.CLEANED, Phase.CANCELLED, Phase.FAILED)


class PermitMetrics:
    def __init__(self, meters: Meters) -> None:
        registry = meters.registry
        self._requests = Counter(REQUESTS.name, REQUESTS.meaning, REQUESTS.labels, registry=registry)
        self._seconds = Histogram(
            REQUEST_SECONDS.name, REQUEST_SECONDS.meaning, registry=registry, buckets=REQUEST_SECONDS.buckets
        )
        self._waits = Histogram(
            WAIT_SECONDS.name, WAIT_SECONDS.meaning, registry=registry, buckets=WAIT_SECONDS.buckets
        )
        self._denied = Gauge(DENIED.name, DENIED.meaning, registry=registry)
        self._migrations = Gauge(MIGRATIONS.name, MIGRATIONS.meaning, MIGRATIONS.labels, registry=registry)
        self._ended = Counter(ENDED.name, ENDED.meaning, ENDED.labels, registry=registry)
        self._alerts = Counter(ALERTS.name, ALERTS.meaning, ALERTS.labels, registry=registry)
        for outcome in _OUTCOMES:
            self._ended.labels(outcome.value)
        for reason in (CAPACITY_NEEDED, EARMARK_EXPIRED):
            self._alerts.labels(reason)

    def replied(self, status: int, seconds: float) -> None:
        self._requests.labels(str(status)).inc()
        self._seconds.observe(seconds)

    def waited(self, seconds: float) -> None:
        self._waits.observe(seconds)

    def ended(self, outcome: Phase) -> None:
        self._ended.labels(outcome.value).inc()

    def alerted(self, reason: str) -> None:
        self._alerts.labels(reason).inc()

    def follow(self, state: Callable[[], MachineState | None]) -> None:
        """Compute the gauges from this state when they are scraped; None while another process leads."""
        self._denied.set_function(lambda: _denied(state()))
        for phase in Phase:
            if phase not in _OUTCOMES:
                self._migrations.labels(phase.value).set_function(partial(_migrations, state, phase))


def _denied(state: MachineState | None) -> int:
    return 0 if state is None else sum(len(node.denied) for node in state.table.nodes.values())


def _migrations(state: Callable[[], MachineState | None], phase: Phase) -> int:
    current = state()
    migrations = [] if current is None else current.table.all_migrations()
    return sum(migration.phase is phase for migration in migrations)
