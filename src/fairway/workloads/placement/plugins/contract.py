"""The stability contract of a Placement: what a better cluster must offer, and when, before the decision moves to it.

Annotations of the Placement set it, or arguments of the plugin Stability for all Placements of a profile. An invalid
value has no effect, as with all annotations; the faults describe it for the condition of the Placement.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairway.hosts.instant import SECOND, Micros
from fairway.workloads.placement.plugins.trust import Fault
from fairway.workloads.placement.workload import PlacementWorkload

STABILITY: Final = "fairway.dev/stability"
MIN_GAIN: Final = "fairway.dev/min-gain"
DWELL: Final = "fairway.dev/dwell"
MOVES_PER_HOUR: Final = "fairway.dev/moves-per-hour"
QUIET_HOURS: Final = "fairway.dev/quiet-hours"
DEFAULT: Final = "default"
NONE: Final = "none"
ANNOTATIONS: Final = (STABILITY, MIN_GAIN, DWELL, MOVES_PER_HOUR, QUIET_HOURS)

WRONG_STABILITY: Final = "{text!r} must be default or none"
WRONG_NUMBER: Final = "{text!r} must be a whole number from {least} to {most}"
WRONG_MOVES: Final = "{text!r} must be a whole number from 1 to {most}, or a fraction from 0.01, such as 0.5"
WRONG_DWELL: Final = "{text!r} must be a number of seconds, minutes or hours up to 720h, such as 10m"
WRONG_HOURS: Final = (
    "{text!r} must list times of day in UTC, such as 22:00-06:00, that leave a part of the day"
)

HOUR: Final[Micros] = 3600 * SECOND
DAY: Final = 24 * 60
"""Minutes."""
MOST_POINTS: Final = 10_000
MOST_MOVES: Final = 1000
MOST_PERIODS: Final = 48
LONGEST_DWELL: Final[Micros] = 720 * HOUR
SLOWEST: Final = 10
"""Thousandths of a move in an hour."""
_FRACTION: Final = re.compile(r"0\.[0-9]{1,3}", re.ASCII)
_DURATION: Final = re.compile(r"([0-9]{1,9})([hms])", re.ASCII)
_UNITS: Final = {"h": HOUR, "m": 60 * SECOND, "s": SECOND}
_PERIOD: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """None, also of the limits, is what OCM does."""

    min_gain: int | None = None
    """In points of the scores: with the weight 10, one point is 10 points of the total."""
    dwell: Micros | None = None
    moves: tuple[int, Micros] | None = None
    """How many in any time of this length: half a move per hour is one in two hours."""
    namespace_moves: int | None = None
    """In any hour, of all Placements with a contract in the namespace."""
    fleet_moves: int | None = None
    """In any hour, of all Placements with a contract."""
    quiet: tuple[tuple[int, int], ...] | None = None
    """Start and end, in minutes of the day; those that end before they start span midnight."""

    def quiet_until(self, now: Micros) -> Micros | None:
        """Return when the quiet hours end; None outside of them."""
        moment = start = now
        # A period may end within the next one.
        for _ in self.quiet or ():
            for first, last in self.quiet or ():
                minute = moment // (60 * SECOND) % DAY
                if (minute - first) % DAY < (last - first) % DAY:
                    whole = moment - moment % (60 * SECOND)
                    moment = whole + (last - minute) % DAY * 60 * SECOND
        return moment if moment > start else None


OCM: Final = Contract()
SANE: Final = Contract(min_gain=15, moves=(1, 2 * HOUR), namespace_moves=50, fleet_moves=500)
"""Noise of a measured load rarely gains 15 points, a change worth a restart does; where noise is larger, the limits
bound what it moves. No dwell: it would delay the first real change after a move, which the limit allows."""


def contract_of(workload: PlacementWorkload, base: Contract) -> Contract:
    """Return the contract of a placement, given that of its profile."""
    own = workload.derive(_annotated)
    if own.choice == DEFAULT:
        base = replace(base, **{name: value for name, value in _SANE if getattr(base, name) is None})
    elif own.choice == NONE:
        # The limits of namespaces and the fleet protect others, so a placement cannot drop them.
        base = Contract(namespace_moves=base.namespace_moves, fleet_moves=base.fleet_moves)
    return replace(base, **own.fields) if own.fields else base


def contract_faults(workload: PlacementWorkload) -> tuple[Fault, ...]:
    return workload.derive(_annotated).faults


_SANE: Final = tuple((name, getattr(SANE, name)) for name in Contract.__slots__)


@dataclass(frozen=True, slots=True)
class _Annotated:
    choice: str
    fields: Mapping[str, Any]
    faults: tuple[Fault, ...]


def _annotated(workload: PlacementWorkload) -> _Annotated:
    annotations = workload.placement.metadata.annotations
    fields: dict[str, Any] = {}
    faults: list[Fault] = []
    choice = annotations.get(STABILITY, "")
    if STABILITY in annotations and choice not in (DEFAULT, NONE):
        faults.append(Fault(STABILITY, WRONG_STABILITY.format(text=choice)))
    for annotation, field, parse in (
        (MIN_GAIN, "min_gain", parse_points),
        (DWELL, "dwell", parse_dwell),
        (MOVES_PER_HOUR, "moves", parse_moves),
        (QUIET_HOURS, "quiet", parse_hours),
    ):
        text = annotations.get(annotation)
        if text is None:
            continue
        try:
            fields[field] = parse(text)
        except ValueError as error:
            faults.append(Fault(annotation, str(error)))
    return _Annotated(choice, fields, tuple(faults))


def parse_points(text: object) -> int:
    return _number(text, least=0, most=MOST_POINTS)


def parse_limit(text: object) -> int:
    return _number(text, least=1, most=MOST_MOVES)


def parse_moves(text: object) -> tuple[int, Micros]:
    if _FRACTION.fullmatch(str(text)) and (thousandths := round(1000 * float(str(text)))) >= SLOWEST:
        return 1, -(-1000 * HOUR // thousandths)
    try:
        return parse_limit(text), HOUR
    except ValueError:
        raise ValueError(WRONG_MOVES.format(text=text, most=MOST_MOVES)) from None


def parse_dwell(text: object) -> Micros:
    match = _DURATION.fullmatch(str(text))
    dwell = LONGEST_DWELL + 1 if match is None else int(match[1]) * _UNITS[match[2]]
    if dwell > LONGEST_DWELL:
        raise ValueError(WRONG_DWELL.format(text=text))
    return dwell


def parse_hours(text: object) -> tuple[tuple[int, int], ...]:
    """Raise ValueError if they leave no minute of the day, in which no move would ever be possible."""
    periods = []
    for part in str(text).split(",", MOST_PERIODS):
        match = _PERIOD.fullmatch(part.strip())
        if match is None:
            raise ValueError(WRONG_HOURS.format(text=text))
        hour, minute, last_hour, last_minute = map(int, match.groups())
        periods.append((60 * hour + minute, 60 * last_hour + last_minute))
    if not all(first != last for first, last in periods) or all(
        any((minute - first) % DAY < (last - first) % DAY for first, last in periods) for minute in range(DAY)
    ):
        raise ValueError(WRONG_HOURS.format(text=text))
    return tuple(periods)


def _number(text: object, *, least: int, most: int) -> int:
    if isinstance(text, bool) or re.fullmatch(r"[0-9]{1,6}", str(text), re.ASCII) is None:
        raise ValueError(WRONG_NUMBER.format(text=text, least=least, most=most))
    if not least <= (number := int(str(text))) <= most:
        raise ValueError(WRONG_NUMBER.format(text=text, least=least, most=most))
    return number


def ceil_second(moment: Micros) -> Micros:
    """Round up, so that what is recorded in whole seconds is never shorter than promised."""
    return -(-moment // SECOND) * SECOND
