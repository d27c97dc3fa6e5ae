"""The options in a request's query and in DeleteOptions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubehub import status
from kubehub.go_format import INT64_MAX, INT64_MIN
from kubehub.patches.managed_fields import manager_name
from kubehub.resource import Document
from kubehub.schemas.metadata import check_manager
from kubewire.api.selector import quote

STRICT: Final = "Strict"
WARN: Final = "Warn"
IGNORE: Final = "Ignore"

FOREGROUND: Final = "Foreground"
BACKGROUND: Final = "Background"
ORPHAN: Final = "Orphan"

CREATE_OPTIONS: Final = "CreateOptions"
UPDATE_OPTIONS: Final = "UpdateOptions"
PATCH_OPTIONS: Final = "PatchOptions"

DRY_RUN: Final = "All"

EXACT: Final = "Exact"
NOT_OLDER: Final = "NotOlderThan"

_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_REVISION: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 20
"""The most digits of a 64-bit number."""
_UINT64_MAX: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    dry_run: bool = False
    manager: str = ""
    """The field manager, from the query or the User-Agent."""
    validation: str = WARN
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    revision: str = ""
    match: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    dry_run: bool = False
    propagation: str = ""
    grace: int | None = None
    cascades: bool = False
    """The client used the deprecated ``orphanDependents``: an unfinished deletion is answered with 202."""
    uid: str | None = None
    """The uid precondition; no object meets an empty one."""
    revision: str | None = None


def parse_flag(query: Mapping[str, str], key: str) -> bool:
    """Return the value of a boolean parameter: anything but false and 0 is true, also the key alone."""
    text = query.get(key)
    return text is not None and text.lower() not in ("false", "0")


def parse_number(query: Mapping[str, str], key: str) -> int:
    text = query.get(key)
    if text is None:
        return 0
    if not _INTEGER.fullmatch(text):
        raise status.bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    if len(text) > _DIGITS or not INT64_MIN <= int(text) <= INT64_MAX:
        raise status.bad_request(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return int(text)


def _reject(kind: str, causes: list[status.Cause]) -> None:
    if causes:
        raise status.invalid("meta.k8s.io", kind, "", causes)


def _dry_run_values(query: Mapping[str, str]) -> list[str]:
    """Check every value of ``dryRun``: any but ``All`` is rejected, also an empty one."""
    return [value for key, value in query.items() if key == "dryRun"]


def _dry_run_causes(values: Sequence[str]) -> list[status.Cause]:
    if all(value == DRY_RUN for value in values):
        return []
    return [status.not_supported("dryRun", list(values), [DRY_RUN])]


def parse_write(query: Mapping[str, str], *, agent: str, kind: str, applies: bool = False) -> Write:
    """Parse write options. ``kind`` names the options in a refusal: CreateOptions, UpdateOptions, PatchOptions."""
    manager = query.get("fieldManager", "")
    causes = []
    if applies and not manager:
        causes.append(status.required("fieldManager", "is required for apply patch"))
    if kind == PATCH_OPTIONS and not applies and "force" in query:
        causes.append(status.forbidden_field("force", "may not be specified for non-apply patch"))
    causes += check_manager(manager)
    dry_run = _dry_run_values(query)
    causes += _dry_run_causes(dry_run)
    validation = query.get("fieldValidation", "") or WARN
    if validation not in (STRICT, WARN, IGNORE):
        causes.append(status.not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    _reject(kind, causes)
    return Write(
        dry_run=bool(dry_run),
        manager=manager_name(manager, agent) or "unknown",
        validation=validation,
        force=parse_flag(query, "force"),
    )


def parse_read(query: Mapping[str, str]) -> Read:
    watch = parse_flag(query, "watch")
    match, revision = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    token = query.get("continue", "")
    initial = parse_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    causes: list[status.Cause] = []

    def forbid(field: str, detail: str) -> None:
        causes.append(status.forbidden_field(field, detail))

    if match and not (watch and initial is not None):
        if watch:
            forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        elif not revision:
            forbid(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        if token:
            forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
        if match not in (EXACT, NOT_OLDER):
            causes.append(status.not_supported("resourceVersionMatch", match, [EXACT, NOT_OLDER, ""]))
        if match == EXACT and revision == "0":
            forbid(
                "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            )
    if initial is not None:
        if not watch:
            forbid("sendInitialEvents", "sendInitialEvents is forbidden for list")
        elif match != NOT_OLDER:
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            forbid("resourceVersionMatch", detail)
            if match:
                causes.append(status.not_supported("resourceVersionMatch", match, [NOT_OLDER]))
    _reject("ListOptions", causes)
    if fault := _revision_fault(revision):
        shown = quote(revision)
        message = f"resourceVersion: Invalid value: {shown}: strconv.ParseUint: parsing {shown}: {fault}"
        if watch:
            raise status.Refusal(code=500, reason="", message=message)
        raise status.bad_request(f"invalid resource version: {message}")
    return Read(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=max(parse_number(query, "limit"), 0),
        continue_token=token,
        revision=revision,
        match=match,
        watch=watch,
        bookmarks=parse_flag(query, "allowWatchBookmarks"),
        initial_events=initial,
        timeout=parse_number(query, "timeoutSeconds"),
    )


def _revision_fault(text: str) -> str:
    if not text:
        return ""
    if not _REVISION.fullmatch(text):
        return "invalid syntax"
    return "value out of range" if len(text) > _DIGITS or int(text) > _UINT64_MAX else ""


def parse_deletion(query: Mapping[str, str], body: Document | None) -> Deletion:
    """Parse DeleteOptions from the body, or from the query if there is no body; ``dryRun`` from both.

    kube-apiserver deletes when only the query asks for a dry run and there is a body.
    """
    source = _parse_query_deletion(query) if body is None else body
    dry_run = [*(source.get("dryRun") or ()), *_dry_run_values(query)]
    causes = []
    policy, orphan = source.get("propagationPolicy"), source.get("orphanDependents")
    if policy is not None and orphan is not None:
        causes.append(
            status.invalid_value(
                "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
            )
        )
    if policy not in (None, FOREGROUND, BACKGROUND, ORPHAN):
        causes.append(
            status.not_supported("propagationPolicy", policy, [FOREGROUND, BACKGROUND, ORPHAN, "nil"])
        )
    causes += _dry_run_causes(dry_run)
    _reject("DeleteOptions", causes)
    if orphan is not None:
        policy = ORPHAN if orphan else BACKGROUND
    conditions = source.get("preconditions") or {}
    grace = source.get("gracePeriodSeconds")
    return Deletion(
        dry_run=bool(dry_run),
        propagation=policy or "",
        grace=grace if isinstance(grace, int) else None,
        cascades=orphan is False,
        uid=conditions.get("uid"),
        revision=conditions.get("resourceVersion"),
    )


def _parse_query_deletion(query: Mapping[str, str]) -> Document:
    """Parse DeleteOptions from the query, except ``dryRun``."""
    deletion: Document = {}
    if "gracePeriodSeconds" in query:
        deletion["gracePeriodSeconds"] = parse_number(query, "gracePeriodSeconds")
    if "orphanDependents" in query:
        deletion["orphanDependents"] = parse_flag(query, "orphanDependents")
    if "propagationPolicy" in query:
        deletion["propagationPolicy"] = query["propagationPolicy"]
    deletion["preconditions"] = {key: query[key] for key in ("uid", "resourceVersion") if query.get(key)}
    return deletion
