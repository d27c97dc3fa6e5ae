"""What configurations of pods start from: the plugins of kube-scheduler, and its default profile."""

from typing import Final

from fairway.plugins.pods import POD_PLUGINS, pod_registry
from fairway.plugins.pods.coscheduling import Coscheduling
from fairway.plugins.pods.profile import WEIGHTS
from fairway.scheduling.configuration import MULTI_POINT, PLACEMENT_PROFILE, Enabled, PluginSet
from fairway.scheduling.loading import Base
from fairway.scheduling.pod_args import decode_args

POD_PROFILE: Final = "fairway"
"""The profile without a file: pods name it as their scheduler."""
DEFAULT_BINDER: Final = "DefaultBinder"

POD_DEFAULTS: Final = Base(
    registry=pod_registry,
    sets={
        MULTI_POINT: PluginSet(
            enabled=(
                *(
                    Enabled(name=each.name, weight=WEIGHTS.get(each.name))
                    for each in POD_PLUGINS
                    if each is not Coscheduling
                ),
                Enabled(name=DEFAULT_BINDER),
            )
        )
    },
    provided={DEFAULT_BINDER: frozenset({"Bind"})},
    required=("queueSort", "bind"),
    default_profile=POD_PROFILE,
    skips=lambda name: name == PLACEMENT_PROFILE,
    other_profiles=(PLACEMENT_PROFILE,),
    for_pods=True,
    decode_args=decode_args,
)
