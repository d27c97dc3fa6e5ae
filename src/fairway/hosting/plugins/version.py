"""Version: rejects clusters with an older Kubernetes version than the request wants."""

import re
from typing import Final

from fairway.clusters import cells
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosting.plugins.row import cluster_at, spec_in

NAME: Final = "Version"
TOO_OLD: Final = "runs Kubernetes {found}, and the request wants {wanted} or newer"
UNKNOWN: Final = "reports no Kubernetes version, and the request wants {wanted} or newer"
_PATH: Final = (cells.PATH, "status", "version", "kubernetes")
_NUMBERS: Final = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")


def version_of(text: str) -> tuple[int, int, int] | None:
    found = _NUMBERS.match(text)
    if found is None:
        return None
    major, minor, patch = found.groups(default="0")
    return int(major), int(minor), int(patch)


class Version(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        wanted = spec_in(context, NAME).request.spec.constraints.minVersion
        if not wanted:
            return OK
        text = cluster_at(context, row).status.version.kubernetes
        found, least = version_of(text), version_of(wanted)
        if found is None:
            return unschedulable(UNKNOWN.format(wanted=wanted), plugin=NAME)
        if least is None or found >= least:
            return OK
        return unschedulable(TOO_OLD.format(found=text, wanted=wanted), plugin=NAME)

    def reads(self, context: Context, /) -> Reads:
        context.snapshot.codes(_PATH)  # only existing columns are compared when a cluster changes
        return Reads(cells=frozenset({_PATH}))
