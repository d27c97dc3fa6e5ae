"""Add-ons: rollout strategies that are not implemented for templates."""

from collections.abc import Iterator
from typing import Final

from fairway.api.addon import ADD_ON_GROUP, PLACEMENTS, ROLLOUT_ALL
from fairway.lint.finding import Finding, warning
from fairway.lint.scene import Scene

ROLLOUT_HELD: Final = warning(
    "rollout-held",
    "The rollout strategy of a template is not All, so clusters that have the add-on keep their earlier configuration.",
)

RULES: Final = (ROLLOUT_HELD,)
_TEMPLATES: Final = (ADD_ON_GROUP, "addontemplates")


def check(scene: Scene) -> Iterator[Finding]:
    for offer in scene.add_ons:
        kinds = {(config.group, config.resource) for config in offer.spec.supportedConfigs}
        if offer.spec.installStrategy.type != PLACEMENTS or _TEMPLATES not in kinds:
            continue  # add-ons without a template are rolled out in steps
        for at, strategy in enumerate(offer.spec.installStrategy.placements):
            kind = strategy.rolloutStrategy.type or ROLLOUT_ALL
            if kind == ROLLOUT_ALL:
                continue
            yield ROLLOUT_HELD.at(
                offer,
                f"spec.installStrategy.placements[{at}].rolloutStrategy.type",
                f"Fairway does not implement {kind} for add-ons with a template: a changed template or configuration "
                "reaches no cluster that has the add-on, and every newly selected cluster of Placement "
                f"{strategy.namespace}/{strategy.name} gets the present one at once",
                "use All where changes may reach all clusters at once; otherwise name the new configuration in "
                "spec.configs of one ManagedClusterAddOn after the other",
            )
