"""What the controller of cluster sets must be allowed to do."""

from typing import Final

from fairway.api import GROUP
from fairway.controllers.acceptance.kinds import PolicyRule

RULES: Final = (
    PolicyRule(
        api_groups=(GROUP,),
        resources=("managedclusters", "managedclustersetbindings", "managedclustersets"),
        verbs=("list", "watch"),
    ),
    PolicyRule(api_groups=(GROUP,), resources=("managedclusters",), verbs=("patch",)),
    PolicyRule(api_groups=(GROUP,), resources=("managedclustersets",), verbs=("create", "patch")),
    PolicyRule(
        api_groups=(GROUP,),
        resources=("managedclustersetbindings/status", "managedclustersets/status"),
        verbs=("patch",),
    ),
)
