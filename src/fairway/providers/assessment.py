"""Turn a reading into scores, by the scales, and into a condition message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from fairway.providers.message_format import described, tidy, tidy_reason
from fairway.providers.provider import Scale, Score
from fairway.providers.reading_check import BAD_VALUE, CheckedReading
from fairway.providers.scales import clamped

WELL: Final = "AddOnPlacementScoreUpdated"
"""The reason of a condition that is true."""
NO_VALUES: Final = "NoValues"
NOTHING_READ: Final = "the provider returned no values"
SCALE_FAILED: Final = "the scale of {name} failed on {value:g}: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    scores: tuple[tuple[str, int], ...]
    """Sorted by name."""
    at: datetime
    well: bool = True
    reason: str = WELL
    message: str = ""
    raw: Mapping[str, float] = field(default_factory=dict)
    """As they were read, before smoothing."""


def assess(
    intake: CheckedReading,
    scores: Sequence[Score],
    *,
    at: datetime,
    smoothed: Mapping[str, float] | None = None,
    scales: Mapping[str, Scale] | None = None,
) -> Assessment:
    """``scales`` are those of this round, by name of the score, where they are not the score's own."""
    found: list[tuple[str, int]] = []
    problems = [intake.problem] if intake.problem else []
    reason = intake.reason
    for score in scores:
        if score.name not in intake.values:
            continue
        value = (smoothed or intake.values)[score.name]
        scale = (scales or {}).get(score.name, score.scale)
        try:
            found.append((score.name, clamped(scale.score(value))))
        except Exception as error:  # a scale may be anybody's code
            problems.append(SCALE_FAILED.format(name=score.name, value=value, error=described(error)))
            reason = reason or BAD_VALUE
    if not found and not problems:
        problems, reason = [NOTHING_READ], NO_VALUES
    words = "; ".join(part for part in (summary(intake.values, scores), intake.note) if part)
    return Assessment(
        scores=tuple(sorted(found)),
        at=at,
        well=not problems,
        reason=tidy_reason(reason) if problems else WELL,
        message=tidy("; ".join([*problems, words] if words else problems)),
        raw=dict(intake.values),
    )


def summary(values: Mapping[str, float], scores: Sequence[Score]) -> str:
    """``cpuAvailable 12.5 cores, memAvailable 40 GiB``."""
    return ", ".join(
        f"{score.name} {values[score.name]:.6g}{f' {score.unit}' if score.unit else ''}"
        for score in sorted(scores, key=lambda score: score.name)
        if score.name in values
    )
