"""The kinds of work that configurations know, and to which of them a profile belongs."""

from collections.abc import Iterable
from typing import Final

from fairway.engine.kind import WorkKind
from fairway.workloads.hosting.profile import HOSTING_KIND
from fairway.workloads.placement.profile import PLACEMENT_KIND
from fairway.workloads.pods.profile import POD_KIND

KINDS: Final = (PLACEMENT_KIND, HOSTING_KIND, POD_KIND)
WITH_ONE_PROFILE: Final = tuple(kind for kind in KINDS if not kind.names_profiles)
"""Their profiles have reserved names, so that a file may configure them beside each other."""


def kind_of(profile: str, kinds: Iterable[WorkKind]) -> WorkKind | None:
    """Return the kind whose workloads have a profile: the one with this name, else the one that names profiles."""
    given = tuple(kinds)
    own = (kind for kind in given if not kind.names_profiles and kind.profile == profile)
    return next(own, None) or next((kind for kind in given if kind.names_profiles), None)
