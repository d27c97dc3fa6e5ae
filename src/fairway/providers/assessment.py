"""Turn a reading into scores, by the scales, and into a condition message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from fairway.providers.message_format import describe, tidy, tidy_reason
from fairway.providers.provider import Scale, Score
from fairway.providers.reading_check import BAD_VALUE, CheckedReading
from fairway.providers.scales import clamp

OK: Final = "AddOnPlacementScoreUpdated"
"""Reason of a condition with status True."""
NO_VALUES: Final = "NoValues"
CONDITIONS: Final = {
    ("AddOnPlacementScore", OK): {OK: "The scores are current.", NO_VALUES: "The provider read no values."}
}

NOTHING_READ: Final = "the provider returned no values"
SCALE_FAILED: Final = "the scale of {name} failed on {value:g}: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    scores: tuple[tuple[str, int], ...]
    """Sorted by name."""
    at: datetime
    ok: bool = True
    reason: str = OK
    message: str = ""
    raw: Mapping[str, float] = field(default_factory=dict)
    """Values before smoothing."""


def assess(
    intake: CheckedReading,
    scores: Sequence[Score],
    *,
    at: datetime,
    smoothed: Mapping[str, float] | None = None,
    scales: Mapping[str, Scale] | None = None,
) -> Assessment:
    """``scales`` maps score names to scales fitted in this round; other scores use their own scale."""
    published: list[tuple[str, int]] = []
    problems = [intake.problem] if intake.problem else []
    reason = intake.reason
    for score in scores:
        if score.name not in intake.values:
            continue
        value = (smoothed or intake.values)[score.name]
        scale = (scales or {}).get(score.name, score.scale)
        try:
            published.append((score.name, clamp(scale.score(value))))
        except Exception as error:  #  a scale may be third-party code
            problems.append(SCALE_FAILED.format(name=score.name, value=value, error=describe(error)))
            reason = reason or BAD_VALUE
    if not published and not problems:
        problems, reason = [NOTHING_READ], NO_VALUES
    words = "; ".join(part for part in (summary(intake.values, scores), intake.note) if part)
    return Assessment(
        scores=tuple(sorted(published)),
        at=at,
        ok=not problems,
        reason=tidy_reason(reason) if problems else OK,
        message=tidy("; ".join([*problems, words] if words else problems)),
        raw=dict(intake.values),
    )


def summary(values: Mapping[str, float], scores: Sequence[Score]) -> str:
    """Format raw values: ``cpuAvailable 12.5 cores, memAvailable 40 GiB``."""
    return ", ".join(
        f"{score.name} {values[score.name]:.6g}{f' {score.unit}' if score.unit else ''}"
        for score in sorted(scores, key=lambda score: score.name)
        if score.name in values
    )
