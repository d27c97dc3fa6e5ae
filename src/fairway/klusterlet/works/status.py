"""Compute a work's status: conditions per manifest, and their aggregation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from msgspec import structs

from fairway.api.work import (
    WORK_APPLIED,
    WORK_AVAILABLE,
    WORK_COMPLETE,
    WORK_PROGRESSING,
    ManifestCondition,
    ManifestConfig,
    ManifestResourceMeta,
    ManifestResourceStatus,
    ManifestWork,
    ManifestWorkStatus,
)
from fairway.klusterlet.works import condition_rules
from fairway.klusterlet.works.feedback import STATUS_FEEDBACK_SYNCED, feedback
from fairway.klusterlet.works.messages import ManifestError, describe, truncate
from kubewire.api.meta import (
    FALSE,
    TRUE,
    UNKNOWN,
    Condition,
    UnreadableField,
    find_condition,
    set_condition,
)

MANIFEST_APPLIED: Final = "AppliedManifestComplete"
MANIFEST_FAILED: Final = "AppliedManifestFailed"
WORK_COMPLETE_REASON: Final = "AppliedManifestWorkComplete"
WORK_FAILED: Final = "AppliedManifestWorkFailed"
AVAILABLE: Final = "ResourceAvailable"
NOT_AVAILABLE: Final = "ResourceNotAvailable"
INCOMPLETE: Final = "IncompleteResourceMeta"
FETCHING_FAILED: Final = "FetchingResourceFailed"
ALL_AVAILABLE: Final = "ResourcesAvailable"
SOME_NOT_AVAILABLE: Final = "ResourcesNotAvailable"
STATUS_UNKNOWN: Final = "ResourcesStatusUnknown"
DELETING: Final = "Deleting"
WORK_DELETING: Final = "WorkDeleting"
CONDITIONS: Final = {
    ("ManifestWork", WORK_APPLIED): {
        WORK_COMPLETE_REASON: "All manifests are applied.",
        WORK_FAILED: "A manifest could not be applied.",
        MANIFEST_APPLIED: "The manifest is applied (condition of a manifest).",
        MANIFEST_FAILED: "The manifest could not be applied (condition of a manifest).",
    },
    ("ManifestWork", WORK_AVAILABLE): {
        ALL_AVAILABLE: "All objects exist.",
        SOME_NOT_AVAILABLE: "An object does not exist.",
        STATUS_UNKNOWN: "An object could not be read.",
        AVAILABLE: "The object exists (condition of a manifest).",
        NOT_AVAILABLE: "The object does not exist (condition of a manifest).",
        INCOMPLETE: "The manifest does not identify an object (condition of a manifest).",
        FETCHING_FAILED: "The object could not be read (condition of a manifest).",
    },
    ("ManifestWork", DELETING): {WORK_DELETING: "The work is being deleted."},
}

UNREADABLE: Final = "Failed to apply manifest work: {field} cannot be read: {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one manifest. ``unread`` is the error of reading the object."""

    meta: ManifestResourceMeta
    config: ManifestConfig = field(default_factory=ManifestConfig)
    live: Mapping[str, Any] | None = None
    refusal: ManifestError | None = None
    unread: str = ""


def is_complete(conditions: Iterable[Condition]) -> bool:
    complete = find_condition(conditions, WORK_COMPLETE)
    return complete is not None and complete.status == TRUE


def is_completed(work: ManifestWork, meta: ManifestResourceMeta) -> bool:
    """Whether the object's Complete condition is true; then it is not changed any more."""
    before = _PreviousConditions(work.status.resourceStatus.manifests).of(meta)
    return before is not None and is_complete(before.conditions)


def status_of(work: ManifestWork, outcomes: Sequence[Outcome], *, now: datetime) -> ManifestWorkStatus:
    """Compute the status. Conditions of other writers stay."""
    generation = work.metadata.generation
    before = _PreviousConditions(work.status.resourceStatus.manifests)
    manifests = tuple(_manifest(outcome, before.of(outcome.meta), generation, now) for outcome in outcomes)
    conditions = work.status.conditions
    fresh = [_applied_condition(outcomes), _available_condition(manifests), *_rule_conditions(manifests)]
    types = {condition.type for condition in fresh}
    conditions = tuple(
        condition
        for condition in conditions
        if condition.type in types or not condition.reason.startswith(condition_rules.PREFIX)
    )
    for condition in fresh:
        conditions = set_condition(
            conditions, structs.replace(condition, observedGeneration=generation), now=now
        )
    return ManifestWorkStatus(
        conditions=conditions, resourceStatus=ManifestResourceStatus(manifests=manifests)
    )


def unreadable_status(work: ManifestWork, field: UnreadableField, *, now: datetime) -> ManifestWorkStatus:
    """Status of a work with an unreadable field in its spec."""
    condition = Condition(
        type=WORK_APPLIED,
        status=FALSE,
        reason=WORK_FAILED,
        message=UNREADABLE.format(field=field.path, reason=field.reason),
        observedGeneration=work.metadata.generation,
    )
    return structs.replace(work.status, conditions=set_condition(work.status.conditions, condition, now=now))


def deleting_conditions(work: ManifestWork, *, now: datetime) -> tuple[Condition, ...]:
    condition = Condition(
        type=DELETING,
        status=TRUE,
        reason=WORK_DELETING,
        message="ManifestWork is being deleted",
        observedGeneration=work.metadata.generation,
    )
    return set_condition(work.status.conditions, condition, now=now)


class _PreviousConditions:
    """Reported conditions by manifest, also of a manifest that moved within the work."""

    def __init__(self, manifests: Iterable[ManifestCondition]) -> None:
        self._exact: dict[ManifestResourceMeta, ManifestCondition] = {}
        self._moved: dict[ManifestResourceMeta, ManifestCondition | None] = {}
        for manifest in manifests:
            self._exact[manifest.resourceMeta] = manifest
            place = structs.replace(manifest.resourceMeta, ordinal=0)
            self._moved[place] = None if place in self._moved else manifest

    def of(self, meta: ManifestResourceMeta) -> ManifestCondition | None:
        return self._exact.get(meta) or self._moved.get(structs.replace(meta, ordinal=0))


def _manifest(
    outcome: Outcome, before: ManifestCondition | None, generation: int, now: datetime
) -> ManifestCondition:
    conditions = before.conditions if before else ()
    given = before.statusFeedback if before else None
    fresh = [_manifest_applied(outcome, generation), _manifest_available(outcome)]
    if outcome.live is not None:
        values, synced = feedback(outcome.live, outcome.config.feedbackRules)
        if values != given:
            # A change of the values resets the condition's transition time.
            conditions = tuple(
                condition for condition in conditions if condition.type != STATUS_FEEDBACK_SYNCED
            )
        given = values
        fresh += [
            synced,
            *condition_rules.conditions(outcome.live, outcome.config.conditionRules, generation=generation),
        ]
    ruled = {rule.condition for rule in outcome.config.conditionRules}
    conditions = tuple(
        condition
        for condition in conditions
        if condition.type in ruled or not condition.reason.startswith(condition_rules.PREFIX)
    )
    for condition in fresh:
        conditions = set_condition(conditions, condition, now=now)
    return ManifestCondition(resourceMeta=outcome.meta, statusFeedback=given, conditions=conditions)


def _manifest_applied(outcome: Outcome, generation: int) -> Condition:
    if outcome.refusal is None:
        status, reason, message = TRUE, MANIFEST_APPLIED, "Apply manifest complete"
    else:
        status, reason = FALSE, outcome.refusal.reason or MANIFEST_FAILED
        message = f"Failed to apply manifest: {describe(outcome.meta)}: {outcome.refusal}"
    return Condition(
        type=WORK_APPLIED,
        status=status,
        reason=reason,
        message=truncate(message),
        observedGeneration=generation,
    )


def _manifest_available(outcome: Outcome) -> Condition:
    if not outcome.meta.resource or not outcome.meta.name:
        state = UNKNOWN, INCOMPLETE, "Resource meta is incomplete"
    elif outcome.unread:
        state = UNKNOWN, FETCHING_FAILED, truncate(f"Failed to fetch resource: {outcome.unread}")
    elif outcome.live is None:
        state = FALSE, NOT_AVAILABLE, "Resource is not available"
    else:
        state = TRUE, AVAILABLE, "Resource is available"
    status, reason, message = state
    return Condition(type=WORK_AVAILABLE, status=status, reason=reason, message=message)


def _applied_condition(outcomes: Sequence[Outcome]) -> Condition:
    failed = [outcome for outcome in outcomes if outcome.refusal is not None]
    if not failed:
        return Condition(
            type=WORK_APPLIED,
            status=TRUE,
            reason=WORK_COMPLETE_REASON,
            message="Apply manifest work complete",
        )
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    message = f"Failed to apply manifest work: {describe(failed[0].meta)}: {failed[0].refusal}{more}"
    return Condition(type=WORK_APPLIED, status=FALSE, reason=WORK_FAILED, message=truncate(message))


def _available_condition(manifests: Sequence[ManifestCondition]) -> Condition:
    states = [_status(manifest, WORK_AVAILABLE) for manifest in manifests]
    total = len(states)
    if missing := states.count(FALSE):
        found_status = FALSE, SOME_NOT_AVAILABLE, f"{missing} of {total} resources are not available"
    elif unknown := states.count(UNKNOWN):
        found_status = UNKNOWN, STATUS_UNKNOWN, f"{unknown} of {total} resources have unknown status"
    elif not states:
        found_status = UNKNOWN, STATUS_UNKNOWN, "cannot get any available resource "
    else:
        found_status = TRUE, ALL_AVAILABLE, "All resources are available"
    status, reason, message = found_status
    return Condition(type=WORK_AVAILABLE, status=status, reason=reason, message=message)


def _status(manifest: ManifestCondition, type_: str) -> str:
    condition = find_condition(manifest.conditions, type_)
    return condition.status if condition else ""


def _rule_conditions(manifests: Sequence[ManifestCondition]) -> Iterable[Condition]:
    by_type: dict[str, list[Condition]] = {}
    for manifest in manifests:
        for condition in manifest.conditions:
            if condition.reason.startswith(condition_rules.PREFIX):
                by_type.setdefault(condition.type, []).append(condition)
    for type_, conditions in sorted(by_type.items()):
        statuses = [condition.status for condition in conditions]
        # Progressing is true if any condition is; others are true only if all are.
        order = (TRUE, UNKNOWN, FALSE) if type_ == WORK_PROGRESSING else (FALSE, UNKNOWN, TRUE)
        message = conditions[0].message if len(conditions) == 1 else ""
        yield Condition(
            type=type_,
            status=next(status for status in order if status in statuses),
            reason=condition_rules.AGGREGATED,
            message=message or f"Aggregated from {len(conditions)} manifest conditions",
        )
