"""Where controllers record their decisions. ``fairway.history`` implements it; controllers know only this."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from fairway.engine.outcome import Outcome
from fairway.engine.status import Status
from fairway.hosts.instant import Micros
from fairway.workloads.placement.pages import Page

HOSTED_CLUSTER: Final = "hostedcluster"
POD: Final = "pod"
MIGRATION: Final = "migration"


class DecidedRecord(Protocol):
    """The record of a placement's decision on its way to the hub. The history has it once a method is called."""

    @property
    def id(self) -> str: ...

    def written(self) -> None:
        """The hub has the decision."""

    def abandoned(self, error: str, /) -> None:
        """The hub may have a part of the decision."""


class DecisionHistory(Protocol):
    """Its methods return at once and do not raise."""

    metric: Callable[[str, int], None]
    """Called with what became of records, and how many."""

    def placement(
        self, outcome: Outcome, *, pages: Sequence[Page], status: Status, cause: str
    ) -> DecidedRecord | None:
        """Record a decision that changes what the hub has, with everything that its cycle read."""

    def decided(
        self,
        kind: str,
        *,
        namespace: str,
        name: str,
        at: Micros | None = None,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
        cause: str = "",
        message: str = "",
        error: str = "",
    ) -> str:
        """Record a decision of another kind of work, which the hub has; by default now. Return the record's id.

        ``before`` and ``after`` are names of hosts, ``error`` why a decision did not come true."""
