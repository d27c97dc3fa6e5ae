"""The taint of an unhealthy cluster, as a patch of a list that users also edit."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from fairway.api.cluster import NO_SELECT, NO_SELECT_IF_NEW, TAINT_UNAVAILABLE, TAINT_UNREACHABLE, Taint
from fairway.controllers.recovery.decision import REASONS
from kubewire.api.meta import format_time

KEY: Final = "fairway.dev/unhealthy"

Patch = Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A sequence is a JSON patch, a mapping a merge patch."""


def is_ours(taint: Taint) -> bool:
    """Users may use our key with a value that recovery never sets."""
    return taint.key == KEY and taint.value in REASONS and taint.effect in (NO_SELECT, NO_SELECT_IF_NEW)


def is_unreachable(taint: Taint) -> bool:
    """Whether the taint marks an unavailable cluster, as OCM's and Fairway's controllers set it."""
    return taint.key in (TAINT_UNREACHABLE, TAINT_UNAVAILABLE) and taint.effect == NO_SELECT


def ours(taints: Sequence[Taint]) -> Taint | None:
    return next(filter(is_ours, taints), None)


def added(taints: Sequence[Taint], *, reason: str, effect: str, now: datetime, stamped: bool = True) -> Patch:
    """``stamped``: with timeAdded, from which toleration counts; otherwise a webhook adds it."""
    time = {"timeAdded": format_time(now)} if stamped else {}
    new = {"key": KEY, "value": reason, "effect": effect, **time}
    if not taints:  # the list, or the whole spec, may be missing
        return {"spec": {"taints": [new]}}
    return [{"op": "add", "path": "/spec/taints/-", "value": new}]


def removed(taints: Sequence[Taint]) -> Patch:
    """Return a patch that removes all of recovery's taints; empty if there are none."""
    places = [place for place, taint in enumerate(taints) if is_ours(taint)]
    return [{"op": "remove", "path": f"/spec/taints/{place}"} for place in reversed(places)]


def corrected(taints: Sequence[Taint], *, effect: str) -> Patch:
    """Return a patch that sets this effect, if an earlier process was configured with another; empty if it is set."""
    return [
        {"op": "replace", "path": f"/spec/taints/{place}/effect", "value": effect}
        for place, taint in enumerate(taints)
        if is_ours(taint) and taint.effect != effect
    ]
