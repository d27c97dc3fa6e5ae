"""The file of `fairway run --config`: per-controller settings, one section for each controller.

recovery:
  health: health-score/health      # RESOURCE/SCORE, or the calculator of a ManagedClusterScore
  below: 40
  above: 60
  dwell: 5m
  recoveryDwell: 15m
  fleet: {percent: 10}
bridge:
  toManaged: true
  ttl: 5m
  ranges:
    resourceratiocpu: {low: 0, high: 100}
scores:
  silent: leave                    # or worst, or drop
  resources: {resource-usage-score: worst}
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeVar

from msgspec import Struct, field

from fairway.cli.errors import BadInputError
from fairway.controllers import bridge, recovery, scores
from fairway.controllers.settings import BRIDGE, RECOVERY, SCORES, Settings
from fairway.providers.document import Document, DocumentError, Seconds, read

IDLE: Final = "%s: section %s has no effect: the controller is not enabled (--controllers=+%s)"

log = logging.getLogger(__name__)

_RECOVERY: Final = recovery.RecoveryPolicy()
_BRIDGE: Final = bridge.BridgeOptions()
_SCORES: Final = scores.SilencePolicy()
_Made = TypeVar("_Made")


class _Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    percent: int
    count: int | None = None

    def budget(self) -> recovery.Budget:
        return recovery.Budget(percent=self.percent, count=self.count)


def _budget(given: recovery.Budget) -> _Budget:
    return _Budget(percent=given.percent, count=given.count)


class _Recovery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    health: str = str(_RECOVERY.health)
    below: int = _RECOVERY.below
    above: int = _RECOVERY.above
    dwell: Seconds = Seconds(_RECOVERY.dwell)
    recovery_dwell: Seconds = Seconds(_RECOVERY.recovery_dwell)
    effect: str = _RECOVERY.effect
    missing: str = _RECOVERY.missing
    fleet: _Budget = _budget(_RECOVERY.fleet)
    per_set: _Budget = _budget(_RECOVERY.per_set)
    suspect_percent: int = _RECOVERY.suspect_percent
    suspect_window: Seconds = Seconds(_RECOVERY.suspect_window)
    fresh: Seconds | None = None

    def policy(self) -> recovery.RecoveryPolicy:
        """Raises ValueError."""
        return recovery.RecoveryPolicy(
            health=recovery.HealthSource.parse(self.health),
            below=self.below,
            above=self.above,
            dwell=float(self.dwell),
            recovery_dwell=float(self.recovery_dwell),
            effect=self.effect,
            missing=self.missing,
            fleet=self.fleet.budget(),
            per_set=self.per_set.budget(),
            suspect_percent=self.suspect_percent,
            suspect_window=float(self.suspect_window),
            fresh=None if self.fresh is None else float(self.fresh),
        )


class _Range(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    low: int
    high: int
    floor: Literal[0, -100] = 0


class _Bridge(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    to_add_on: bool = _BRIDGE.to_add_on
    to_managed: bool = _BRIDGE.to_managed
    ttl: Seconds = Seconds(_BRIDGE.ttl)
    resource: str = _BRIDGE.resource
    calculators: frozenset[str] = frozenset()
    ranges: dict[str, _Range] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    resources: frozenset[str] = frozenset()

    def options(self) -> bridge.BridgeOptions:
        """Raises ValueError."""
        return bridge.BridgeOptions(
            to_add_on=self.to_add_on,
            to_managed=self.to_managed,
            ttl=float(self.ttl),
            resource=self.resource,
            calculators=self.calculators,
            ranges={
                name: bridge.Range(low=given.low, high=given.high, floor=given.floor)
                for name, given in self.ranges.items()
            },
            names=self.names,
            resources=self.resources,
        )


class _Scores(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    silent: scores.Silence = _SCORES.default
    resources: dict[str, scores.Silence] = field(default_factory=dict)
    worst: dict[str, int] = field(default_factory=dict)
    grace: Seconds = Seconds(_SCORES.grace)
    share: float = _SCORES.share
    orphans: scores.Orphans = _SCORES.orphans

    def policy(self) -> scores.SilencePolicy:
        """Raises ValueError."""
        return scores.SilencePolicy(
            default=self.silent,
            by_resource=self.resources,
            worst=self.worst,
            grace=float(self.grace),
            share=self.share,
            orphans=self.orphans,
        )


class _Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    recovery: _Recovery = _Recovery()
    bridge: _Bridge = _Bridge()
    scores: _Scores = _Scores()


def configured(settings: Settings, path: Path) -> Settings:
    """Return the settings with those of the file. Raises BadInputError."""
    try:
        document = read(path)
        config = document.convert(_Config)
        for section in document.value:
            if section not in settings.controllers:
                log.warning(IDLE, path, section, section)
        return replace(
            settings,
            recovery=_made(document, RECOVERY, config.recovery.policy),
            bridge=_made(document, BRIDGE, config.bridge.options),
            scores=_made(document, SCORES, config.scores.policy),
        )
    except DocumentError as error:
        raise BadInputError(str(error)) from None


def _made(document: Document, section: str, make: Callable[[], _Made]) -> _Made:
    try:
        return make()
    except ValueError as error:
        raise document.error(str(error), section) from None
