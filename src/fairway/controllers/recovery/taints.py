"""The taint of an unhealthy cluster, as a change of the list it shares with others: theirs stay to the letter."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from fairway.api.cluster import NO_SELECT, NO_SELECT_IF_NEW, TAINT_UNAVAILABLE, TAINT_UNREACHABLE, Taint
from fairway.api.meta import format_time
from fairway.controllers.recovery.decision import REASONS

KEY: Final = "fairway.dev/unhealthy"

Patch = Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A sequence is a JSON patch, a mapping a merge patch."""


def is_ours(taint: Taint) -> bool:
    """Somebody may use our key for a taint of their own: with a value that we never give."""
    return taint.key == KEY and taint.value in REASONS and taint.effect in (NO_SELECT, NO_SELECT_IF_NEW)


def is_away(taint: Taint) -> bool:
    """Whether it says that the cluster is not available, as OCM's and our own controllers do."""
    return taint.key in (TAINT_UNREACHABLE, TAINT_UNAVAILABLE) and taint.effect == NO_SELECT


def ours(taints: Sequence[Taint]) -> Taint | None:
    return next(filter(is_ours, taints), None)


def added(taints: Sequence[Taint], *, reason: str, effect: str, now: datetime, stamped: bool = True) -> Patch:
    """``stamped``: with its time, for toleration counts from it; without, that is left to a webhook."""
    time = {"timeAdded": format_time(now)} if stamped else {}
    new = {"key": KEY, "value": reason, "effect": effect, **time}
    if not taints:  # maybe there is no list yet, nor all around it
        return {"spec": {"taints": [new]}}
    return [{"op": "add", "path": "/spec/taints/-", "value": new}]


def removed(taints: Sequence[Taint]) -> Patch:
    """All of ours; empty if there is none."""
    places = [place for place, each in enumerate(taints) if is_ours(each)]
    return [{"op": "remove", "path": f"/spec/taints/{place}"} for place in reversed(places)]


def corrected(taints: Sequence[Taint], *, effect: str) -> Patch:
    """Ours with this effect, where an earlier process was told another; empty if they have it."""
    return [
        {"op": "replace", "path": f"/spec/taints/{place}/effect", "value": effect}
        for place, each in enumerate(taints)
        if is_ours(each) and each.effect != effect
    ]
