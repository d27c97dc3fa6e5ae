"""Select the status values that a work's feedback rules report to the hub."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairway.api.work import (
    WELL_KNOWN_STATUS,
    FeedbackRule,
    FeedbackValue,
    FieldValue,
    JsonPath,
    StatusFeedback,
)
from fairway.klusterlet.works.messages import truncate
from kubewire.api import jsonpath
from kubewire.api.meta import FALSE, TRUE, Condition

STATUS_FEEDBACK_SYNCED: Final = "StatusFeedbackSynced"
NONE_SYNCED: Final = "NoStatusFeedbackSynced"
SYNCED: Final = "StatusFeedbackSynced"
FAILED: Final = "StatusFeedbackSyncFailed"

CONDITIONS: Final = {
    ("ManifestWork", STATUS_FEEDBACK_SYNCED): {
        NONE_SYNCED: "The manifest has no feedback rules (condition of a manifest).",
        SYNCED: "The values that the feedback rules name are reported (condition of a manifest).",
        FAILED: "A value could not be reported (condition of a manifest).",
    }
}

NO_WELL_KNOWN: Final = (
    "cannot find the wellknown statuses for {kind} ({version}); name the values by JSONPaths instead"
)
OTHER_VERSION: Final = "version set in the path {name} is not matched: the object is of {version}"
TOO_LONG: Final = (
    "the value of {name} has {size} characters of JSON, more than {limit}; name a smaller part of it"
)
NO_TYPE: Final = "the value of {name} is neither a whole number, a text, a boolean, a list nor an object"
SYNC_FAILED: Final = "Sync status feedback failed with error {errors}"

LONGEST_RAW: Final = 1024

_PATHS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("apps/v1", "Deployment"): {
        "ReadyReplicas": ".status.readyReplicas",
        "Replicas": ".status.replicas",
        "AvailableReplicas": ".status.availableReplicas",
    },
    ("apps/v1", "DaemonSet"): {
        "NumberReady": ".status.numberReady",
        "DesiredNumberScheduled": ".status.desiredNumberScheduled",
        "NumberAvailable": ".status.numberAvailable",
    },
    ("batch/v1", "Job"): {
        "JobComplete": '.status.conditions[?(@.type=="Complete")].status',
        "JobSucceeded": ".status.succeeded",
    },
    ("v1", "Pod"): {"PodReady": '.status.conditions[?(@.type=="Ready")].status', "PodPhase": ".status.phase"},
}


class UnsupportedValue(ValueError):
    """A value that cannot be reported."""


def feedback(
    live: Mapping[str, Any], rules: Iterable[FeedbackRule]
) -> tuple[StatusFeedback | None, Condition]:
    """Return the values, and a condition. Absent values are omitted without an error."""
    wanted = tuple(rules)
    if not wanted:
        return None, Condition(type=STATUS_FEEDBACK_SYNCED, status=TRUE, reason=NONE_SYNCED)
    values: dict[str, FeedbackValue] = {}
    errors: list[str] = []
    version, kind = str(live.get("apiVersion")), str(live.get("kind"))
    for rule in wanted:
        paths = rule.jsonPaths
        if rule.type == WELL_KNOWN_STATUS:
            known = _PATHS.get((version, kind), {})
            if not known:
                errors.append(NO_WELL_KNOWN.format(kind=kind, version=version))
            paths = tuple(JsonPath(name=name, path=path) for name, path in known.items())
        for path in paths:
            try:
                value = _value(live, path, version)
            except (UnsupportedValue, jsonpath.PathError) as error:
                errors.append(str(error))
            else:
                if value is not None:
                    values.setdefault(path.name, FeedbackValue(name=path.name, fieldValue=value))
    given = StatusFeedback(values=tuple(values.values())) if values else None
    if errors:
        message = truncate(SYNC_FAILED.format(errors="; ".join(errors)))
        return given, Condition(type=STATUS_FEEDBACK_SYNCED, status=FALSE, reason=FAILED, message=message)
    return given, Condition(type=STATUS_FEEDBACK_SYNCED, status=TRUE, reason=SYNCED)


def _value(live: Mapping[str, Any], path: JsonPath, version: str) -> FieldValue | None:
    if path.version and path.version != version.rpartition("/")[2]:
        raise UnsupportedValue(OTHER_VERSION.format(name=path.name, version=version))
    matches = jsonpath.values(jsonpath.json_path(path.path), live)
    if not matches:
        return None
    value: Any = matches[0] if len(matches) == 1 else matches
    match value:
        case None:
            return None
        case bool():
            return FieldValue(type="Boolean", boolean=value)
        case int() if -(2**63) <= value < 2**63:
            return FieldValue(type="Integer", integer=value)
        case str():
            return FieldValue(type="String", string=value)
        case list() | dict():
            raw = msgspec.json.encode(value).decode()
            if len(raw) > LONGEST_RAW:
                raise UnsupportedValue(TOO_LONG.format(name=path.name, size=len(raw), limit=LONGEST_RAW))
            return FieldValue(type="JsonRaw", jsonRaw=raw)
        case _:
            raise UnsupportedValue(NO_TYPE.format(name=path.name))
