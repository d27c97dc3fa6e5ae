"""The options in a request's query and in a deletion's body."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.hub import status
from fairway.hub.notation import INT64_MAX, INT64_MIN, quoted
from fairway.hub.patches.managed import LONGEST_NAME, manager_name
from fairway.hub.resource import Document

STRICT: Final = "Strict"
WARN: Final = "Warn"
IGNORE: Final = "Ignore"

FOREGROUND: Final = "Foreground"
BACKGROUND: Final = "Background"
ORPHAN: Final = "Orphan"

EXACT: Final = "Exact"
NOT_OLDER: Final = "NotOlderThan"

_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_REVISION: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 20
"""No number of 64 bits has more."""
_UINT64_MAX: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    dry_run: bool = False
    manager: str = ""
    """The field manager, named by the client or made of its User-Agent."""
    named_manager: bool = False
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
    uid: str = ""
    revision: str = ""


def flag(query: Mapping[str, str], key: str) -> bool:
    """Anything but false and 0 is true, also nothing after the key."""
    text = query.get(key)
    return text is not None and text.lower() not in ("false", "0")


def number(query: Mapping[str, str], key: str) -> int:
    text = query.get(key, "")
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        raise status.bad_request(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax")
    if len(text) > _DIGITS or not INT64_MIN <= int(text) <= INT64_MAX:
        raise status.bad_request(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
    return int(text)


def _of(kind: str, causes: list[status.Cause]) -> None:
    if causes:
        raise status.invalid("meta.k8s.io", kind, "", causes)


def _dry_run(query: Mapping[str, str], kind: str) -> bool:
    text = query.get("dryRun", "")
    if text not in ("", "All"):
        _of(kind, [status.not_supported("dryRun", [text], ["All"])])
    return text == "All"


def write(query: Mapping[str, str], *, agent: str, kind: str) -> Write:
    """``kind`` names the options in a refusal: CreateOptions, UpdateOptions, PatchOptions."""
    manager = query.get("fieldManager", "")
    causes = []
    if len(manager.encode()) > LONGEST_NAME:
        causes.append(
            status.Cause(
                field="fieldManager",
                reason=status.TOO_LONG,
                message=f"Too long: may not be more than {LONGEST_NAME} bytes",
            )
        )
    if not manager.isprintable():
        causes.append(
            status.invalid_value("fieldManager", manager, "should only contain printable characters")
        )
    validation = query.get("fieldValidation", "") or WARN
    if validation not in (STRICT, WARN, IGNORE):
        causes.append(status.not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    _of(kind, causes)
    return Write(
        dry_run=_dry_run(query, kind),
        manager=manager_name(manager, agent) or "unknown",
        named_manager=bool(manager),
        validation=validation,
        force=flag(query, "force"),
    )


def read(query: Mapping[str, str]) -> Read:
    watch = flag(query, "watch")
    match, revision = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    token = query.get("continue", "")
    initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
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
    _of("ListOptions", causes)
    if fault := _revision_fault(revision):
        shown = quoted(revision)
        told = f"resourceVersion: Invalid value: {shown}: strconv.ParseUint: parsing {shown}: {fault}"
        if watch:
            raise status.Refusal(code=500, reason="", message=told)
        raise status.bad_request(f"invalid resource version: {told}")
    return Read(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=max(number(query, "limit"), 0),
        continue_token=token,
        revision=revision,
        match=match,
        watch=watch,
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=initial,
        timeout=number(query, "timeoutSeconds"),
    )


def _revision_fault(text: str) -> str:
    if not text:
        return ""
    if not _REVISION.fullmatch(text):
        return "invalid syntax"
    return "value out of range" if len(text) > _DIGITS or int(text) > _UINT64_MAX else ""


def deletion(query: Mapping[str, str], body: Document | None) -> Deletion:
    """A body counts whole; without one the query does."""
    source: Document = dict(body or {})
    if not source:
        if "gracePeriodSeconds" in query:
            source["gracePeriodSeconds"] = number(query, "gracePeriodSeconds")
        if "orphanDependents" in query:
            source["orphanDependents"] = flag(query, "orphanDependents")
        for key in ("propagationPolicy", "dryRun"):
            if query.get(key):
                source[key] = [query[key]] if key == "dryRun" else query[key]
    elif query.get("dryRun"):
        source.setdefault("dryRun", [query["dryRun"]])
    causes = []
    policy, orphan = source.get("propagationPolicy") or "", source.get("orphanDependents")
    if policy and orphan is not None:
        causes.append(
            status.invalid_value(
                "propagationPolicy",
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            )
        )
    if policy not in ("", FOREGROUND, BACKGROUND, ORPHAN):
        causes.append(
            status.not_supported("propagationPolicy", policy, [FOREGROUND, BACKGROUND, ORPHAN, "nil"])
        )
    dry = source.get("dryRun") or []
    if dry not in ([], ["All"]):
        causes.append(status.not_supported("dryRun", dry, ["All"]))
    _of("DeleteOptions", causes)
    if orphan is not None:
        policy = ORPHAN if orphan else BACKGROUND
    conditions = source.get("preconditions") or {}
    grace = source.get("gracePeriodSeconds")
    return Deletion(
        dry_run=bool(dry),
        propagation=policy,
        grace=grace if isinstance(grace, int) else None,
        uid=conditions.get("uid") or "",
        revision=conditions.get("resourceVersion") or "",
    )
