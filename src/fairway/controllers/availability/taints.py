"""The availability taints, as patches of a list that users also edit.

Patches address single entries by index, so entries of users stay exactly as they are.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fairway.api.cluster import NO_SELECT, TAINT_UNAVAILABLE, TAINT_UNREACHABLE, Taint
from kubewire.api.meta import FALSE, TRUE, Condition, format_time

Operation = dict[str, Any]
"""An operation of a JSON patch."""


def wanted(available: Condition | None) -> str:
    """The key of the desired taint; empty for none."""
    if available is not None and available.status == TRUE:
        return ""
    return TAINT_UNAVAILABLE if available is not None and available.status == FALSE else TAINT_UNREACHABLE


def changes(
    taints: Sequence[Taint], available: Condition | None, *, now: datetime, stamped: bool = True
) -> Sequence[Operation] | Mapping[str, Any]:
    """The JSON patch from the current list to the desired one; empty if they are equal. A missing list needs a merge
    patch, because its parents may be missing, too.

    ``stamped`` is the time for taints without one, from which tolerations count; None leaves that to a webhook.
    """
    key = wanted(available)
    time = {"timeAdded": format_time(now)} if stamped else {}
    new = {"key": key, "effect": NO_SELECT, **time}
    if not taints:
        return {"spec": {"taints": [new]}} if key else ()
    ours = [_is_ours(taint) for taint in taints]
    dropped = [place for place, taint in enumerate(taints) if ours[place] and taint.key != key]
    operations: list[Operation] = []
    if stamped:
        operations += [
            {"op": "add", "path": f"/spec/taints/{place}/timeAdded", "value": format_time(now)}
            for place, taint in enumerate(taints)
            if taint.timeAdded is None and place not in dropped
        ]
    operations += [{"op": "remove", "path": f"/spec/taints/{place}"} for place in reversed(dropped)]
    if key and not any(own and taint.key == key for own, taint in zip(ours, taints, strict=True)):
        operations.append({"op": "add", "path": "/spec/taints/-", "value": new})
    return operations


def _is_ours(taint: Taint) -> bool:
    return (
        taint.key in (TAINT_UNREACHABLE, TAINT_UNAVAILABLE) and taint.effect == NO_SELECT and not taint.value
    )
