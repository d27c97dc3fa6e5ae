"""Version: rejects clusters with an older Kubernetes version than the request wants."""

import re
from collections.abc import Hashable
from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.workloads.hosting.plugins.row import cluster_at, rows_with, spec_in

NAME: Final = "Version"
TOO_OLD: Final = "runs Kubernetes {found}, and the request wants {wanted} or newer"
UNKNOWN: Final = "reports no Kubernetes version, and the request wants {wanted} or newer"
_PATH: Final = (cells.PATH, "status", "version", "kubernetes")
_NUMBERS: Final = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")


def version_of(text: str) -> tuple[int, int, int] | None:
    numbers = _NUMBERS.match(text)
    if numbers is None:
        return None
    major, minor, patch = numbers.groups(default="0")
    return int(major), int(minor), int(patch)


class Version(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        wanted = spec_in(context, NAME).request.spec.constraints.minVersion
        if not wanted:
            return OK
        text = cluster_at(context, row).status.version.kubernetes
        reported, least = version_of(text), version_of(wanted)
        if reported is None:
            return unschedulable(UNKNOWN.format(wanted=wanted), plugin=NAME)
        if least is None or reported >= least:
            return OK
        return unschedulable(TOO_OLD.format(found=text, wanted=wanted), plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        wanted = spec_in(context, NAME).request.spec.constraints.minVersion
        if not wanted:
            return OK, candidates
        least = version_of(wanted)

        def is_enough(text: Hashable | None) -> bool:
            reported = version_of(text) if isinstance(text, str) else None
            return reported is not None and (least is None or reported >= least)

        return OK, rows_with(context, _PATH, candidates, is_enough)

    def reads(self, context: Context, /) -> Reads:
        context.snapshot.codes(_PATH)  # only existing columns are compared when a cluster changes
        return Reads(cells=frozenset({_PATH}))
