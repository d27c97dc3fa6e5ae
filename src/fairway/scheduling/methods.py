"""The methods of plugins that the engine calls: their extension point, the check of their result, and a fallback.

A method that only informs, such as an annotation of a score, has a fallback, so that its fault changes no decision.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from fairway.engine.points import Context, Raw, Reads
from fairway.engine.status import OK, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.scheduling.checks import (
    check_eligible,
    check_mask,
    check_normalized,
    check_passed,
    check_permit,
    check_prioritization,
    check_raw,
    check_reads,
    check_remedies,
    check_rows,
    check_score,
    check_status,
    check_type,
)

EVERYTHING: Final = Reads(anything=True)
MOST_REMEDIES: Final = 100
"""Maximum number of remedies for one host that are read from a plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    name: str
    """Of the plugin's own method, also where the engine calls a whole-fleet form that the plugin lacks."""
    point: str
    call: Callable[..., Any]
    """Called with the plugin and the arguments."""
    check: Callable[..., Any]
    """Called with the result and the arguments. Raises Nonsense."""
    fallback: Callable[..., Any] | None = None
    """Called with the arguments, in place of a faulty method; None if the fault ends the cycle or skips the plugin."""


def _any(result: object, *_args: object) -> object:
    return result


def _status(result: object, *_args: object) -> Status:
    return check_status(result)


def _moment(result: object, *_args: object) -> int:
    return int(check_type(result, int | np.integer, "a time in microseconds"))


def _optional_moment(result: object, *_args: object) -> int | None:
    return None if result is None else _moment(result)


def _explained(result: object, *_args: object) -> Callable[[int], str | None]:
    explain: Callable[[int], object] = check_type(result, Callable, "a function")

    def safely(row: int) -> str | None:
        try:
            words = explain(row)
        except Exception:
            return None
        return words if isinstance(words, str) else None

    return safely


def _sort_key(result: object, *_args: object) -> object:
    key = check_type(result, tuple, "a tuple of integers")
    for part in key:
        check_type(part, int, "a tuple of integers")
    return key


def _chosen(result: object, _context: Context, rows: Rows, *_args: object) -> Rows | None:
    return None if result is None else check_rows(result, among=rows)


_POINTS: Final[Mapping[str, tuple[str, Callable[..., Any], Callable[..., Any] | None]]] = {
    "pre_enqueue": ("PreEnqueue", _status, None),
    "gate_reads": ("PreEnqueue", lambda result, _workload: check_reads(result), lambda _workload: EVERYTHING),
    "sort_key": ("QueueSort", _sort_key, None),
    "prioritize": ("Prioritize", lambda result, *_args: check_prioritization(result), None),
    "pre_filter": (
        "PreFilter",
        lambda result, context: check_eligible(result, live=context.snapshot.live),
        None,
    ),
    "admits": ("PreFilter", _status, None),
    "filter": ("Filter", _status, None),
    "filter_fleet": (
        "Filter",
        lambda result, _context, candidates: check_passed(result, candidates=candidates),
        None,
    ),
    "post_filter": ("PostFilter", _status, None),
    "pre_score": ("PreScore", _status, None),
    "warned_rows": ("PreScore", lambda result, _context, rows: check_rows(result, among=rows), None),
    "warning": ("PreScore", _status, None),
    "remark": (
        "Score",
        lambda result, _context, _row: check_type(result, str, "text"),
        lambda _context, _row: "",
    ),
    "knows": (
        "Score",
        lambda result, _context, rows: check_mask(result, count=len(rows)),
        lambda _context, rows: np.ones(len(rows), dtype=np.bool_),
    ),
    "choose": ("Choose", _chosen, None),
    "explain_choice": ("Choose", _explained, lambda *_args: lambda _row: None),
    "reserve": ("Reserve", _status, None),
    "unreserve": ("Reserve", _any, None),
    "releases": ("Reserve", lambda result, _context: check_type(result, Mapping, "a mapping"), None),
    "commit_reads": ("Reserve", lambda result, _context: check_reads(result), lambda _context: EVERYTHING),
    "permit": ("Permit", lambda result, _context: check_permit(result), None),
    "reads": ("Score", lambda result, _context: check_reads(result), lambda _context: EVERYTHING),
    "basis": ("Score", _any, lambda _context: object()),
    "until": ("Score", _moment, lambda context, _rows: context.now),
    "wake": ("Filter", _optional_moment, lambda _context: None),
    "filter_remedies": ("Filter", lambda result, *_args: check_remedies(result), None),
    "score_remedies": ("Score", lambda result, *_args: check_remedies(result), None),
    "choice_remedies": ("Choose", lambda result, *_args: check_remedies(result), None),
}
"""Point, check and fallback by name of the method. ``score`` and ``normalize`` depend on the plugin."""

_COROUTINES: Final[Mapping[str, tuple[str, Callable[..., Any]]]] = {
    "pre_bind": ("PreBind", _status),
    "bind": ("Bind", _status),
    "post_bind": ("PostBind", _any),
}
"""Point and check by name of the coroutine."""


def coroutines_of(kind: type[Any]) -> dict[str, Method]:
    """Return the coroutines of a plugin class that the commit awaits."""
    return {
        name: Method(name=name, point=point, call=partial(_call, name), check=check)
        for name, (point, check) in _COROUTINES.items()
        if hasattr(kind, name)
    }


def methods_of(kind: type[Any]) -> dict[str, Method]:
    """Return the methods of a plugin class that the engine calls, with whole-fleet forms where it has none."""
    # Without normalisation raw scores are final, and must be in range.
    final = not (hasattr(kind, "normalize") and hasattr(kind, "normalize_fleet"))
    known = dict(_POINTS)
    known["score"] = ("Score", lambda result, *_args: check_score(result, final=final), None)
    known["score_fleet"] = (
        "Score",
        lambda result, _context, rows: check_raw(result, count=len(rows), final=final),
        None,
    )
    known["normalize"] = ("NormalizeScore", lambda result, *_args: check_score(result, final=True), None)
    known["normalize_fleet"] = (
        "NormalizeScore",
        lambda result, raw, _extent: check_normalized(result, count=len(raw)),
        None,
    )
    methods = {
        name: Method(name=name, point=point, call=partial(_call, name), check=check, fallback=fallback)
        for name, (point, check, fallback) in known.items()
        if hasattr(kind, name)
    }
    if "filter" in methods and "filter_fleet" not in methods:
        point, check, fallback = known["filter_fleet"]
        methods["filter_fleet"] = Method(
            name="filter", point=point, call=_filter_each, check=check, fallback=fallback
        )
    if "score" in methods and "score_fleet" not in methods:
        point, check, fallback = known["score_fleet"]
        methods["score_fleet"] = Method(
            name="score", point=point, call=score_each, check=check, fallback=fallback
        )
    for name in ("filter_remedies", "score_remedies", "choice_remedies"):
        if name in methods:
            methods[name] = replace(methods[name], call=partial(_call_and_collect, name))
    for name in ("reads", "basis", "until"):
        if name in methods and "score" not in methods:
            methods[name] = replace(methods[name], point="Filter")
    return methods


def _call(name: str, plugin: Any, *args: Any) -> Any:
    return getattr(plugin, name)(*args)


def _call_and_collect(name: str, plugin: Any, *args: Any) -> Any:
    """Call a method that may be a generator, which runs only while its results are read."""
    result = getattr(plugin, name)(*args)
    return tuple(islice(result, MOST_REMEDIES)) if isinstance(result, Iterable) else result


def _filter_each(plugin: Any, context: Context, candidates: Bits) -> tuple[Status, Bits]:
    final = OK
    passed: list[int] = []
    for row in bitmap.rows_of(candidates).tolist():
        status = check_status(plugin.filter(context, row))
        if status.aborts:
            return status, candidates
        if status.code is Code.WARNING:
            final = status
        if not status.rejects:
            passed.append(row)
    return final, bitmap.from_rows(passed, context.snapshot.capacity)


def score_each(plugin: Any, context: Context, rows: Rows) -> Raw:
    scores = [check_score(plugin.score(context, row), final=False) for row in rows.tolist()]
    present = np.array([score is not None for score in scores], dtype=np.bool_)
    kind = np.float64 if any(isinstance(score, float) for score in scores) else np.int64
    values: Any = np.array([0 if score is None else score for score in scores], dtype=kind)
    return Raw(values, None if present.all() else present)
