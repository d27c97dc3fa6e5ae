"""Mark a silent score: a condition for people, and an annotation with its values, to restore them.

The annotation holds the original values and the replacements, so it shows whether another client has written to the
object since.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.api.score import AddOnPlacementScore, AddOnPlacementScoreItem
from fairway.controllers.runtime.writer import truncate, with_condition
from fairway.controllers.scores.policy import SilencePolicy
from fairway.hosts.clusters.scores import SILENT, is_silent
from kubewire.api.encoding import encode
from kubewire.api.meta import TRUE, Condition, find_condition, format_time
from kubewire.client import Clock

BEFORE: Final = "fairway.dev/before-silence"
"""Annotation of a score that was marked silent."""
LARGEST: Final = 200_000
"""Bytes of that annotation; all annotations of an object may have 256 KiB. Larger ones are not kept."""

EXPIRED: Final = "ScoreExpired"
UNAVAILABLE: Final = "ClusterUnavailable"
"""Reasons of the condition."""

CONDITIONS: Final = {
    ("AddOnPlacementScore", SILENT): {
        EXPIRED: "The score expired and was not renewed.",
        UNAVAILABLE: "The cluster is unavailable, and the score was not renewed.",
    }
}

RAN_OUT: Final = "expired at {since} and was not renewed"
CLUSTER_AWAY: Final = "was not renewed after cluster {cluster} became unavailable at {since}"
MESSAGE: Final = (
    "{resource} {why}. Its values are replaced by the worst until its provider publishes again. "
    "Last values: {said}"
)
NOTHING: Final = "nothing"


class OriginalScores(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    scores: dict[str, int] = {}
    valid_until: datetime | None = None
    written: dict[str, int] = {}
    """The replacement values."""


def reason_text(score: AddOnPlacementScore, *, reason: str, since: datetime) -> str:
    text = CLUSTER_AWAY if reason == UNAVAILABLE else RAN_OUT
    return text.format(cluster=score.metadata.namespace, since=format_time(since))


def replacement_values(score: AddOnPlacementScore, policy: SilencePolicy) -> dict[str, int]:
    resource = score.metadata.name
    return {item.name: policy.worst_of(resource, item.name) for item in score.status.scores}


def annotation_of(score: AddOnPlacementScore, policy: SilencePolicy) -> str:
    """Return the annotation; empty if it would be too long: then the values are not restored, only replaced."""
    text = msgspec.json.encode(
        OriginalScores(
            scores={item.name: item.value for item in score.status.scores},
            valid_until=score.status.validUntil,
            written=replacement_values(score, policy),
        )
    ).decode()
    return text if len(text) <= LARGEST else ""


def original_values(score: AddOnPlacementScore) -> OriginalScores | None:
    """Return None if the annotation is missing or cannot be decoded."""
    text = score.metadata.annotations.get(BEFORE, "")
    try:
        return msgspec.json.decode(text, type=OriginalScores) if text else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def silent_status(
    score: AddOnPlacementScore, policy: SilencePolicy, *, reason: str, since: datetime, clock: Clock
) -> dict[str, Any]:
    """Return the status of a score that is marked silent."""
    last_values = ", ".join(f"{item.name} {item.value}" for item in score.status.scores) or NOTHING
    message = MESSAGE.format(
        resource=score.metadata.name, why=reason_text(score, reason=reason, since=since), said=last_values
    )
    condition = Condition(type=SILENT, status=TRUE, reason=reason, message=truncate(message))
    return {
        "scores": _items(replacement_values(score, policy)),
        "validUntil": None,
        "conditions": [
            encode(kept) for kept in with_condition(score.status.conditions, condition, clock=clock)
        ],
    }


def restored_status(score: AddOnPlacementScore, original: OriginalScores) -> dict[str, Any]:
    """Return the original status."""
    moment = original.valid_until
    return {
        "scores": _items(original.scores),
        "validUntil": None if moment is None else format_time(moment),
        "conditions": other_conditions(score),
    }


def other_conditions(score: AddOnPlacementScore) -> list[Any]:
    return [encode(condition) for condition in score.status.conditions if condition.type != SILENT]


def is_unchanged(score: AddOnPlacementScore, policy: SilencePolicy) -> bool:
    """Whether no client has written to a score since it was marked silent."""
    original = original_values(score)
    written = replacement_values(score, policy) if original is None else original.written
    values = {item.name: item.value for item in score.status.scores}
    return is_silent(score) and score.status.validUntil is None and values == written


def reason_of(score: AddOnPlacementScore) -> str:
    condition = find_condition(score.status.conditions, SILENT)
    return "" if condition is None else condition.reason


def _items(values: Mapping[str, int]) -> list[Any]:
    return [encode(AddOnPlacementScoreItem(name=name, value=value)) for name, value in values.items()]
