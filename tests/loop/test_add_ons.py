"""Add-ons: the plan of a rollout holds the loop for a short time only, however many clusters have the add-on."""

from datetime import UTC, datetime

from fairway.api.addon import RolloutProgressive, RolloutStrategy
from fairway.controllers.addons.rollout_plan import Group, Member, Phase, plan
from fairway.controllers.runtime.slicing import in_slices
from loop.clocks import SlowClock
from loop.steps import CLUSTERS, check_bounded, longest_callback

NOW = datetime(2031, 5, 5, tzinfo=UTC)
STRATEGY = RolloutStrategy(type="Progressive", progressive=RolloutProgressive(progressDeadline="1h"))


def test_rollout_is_planned_in_slices() -> None:
    phases = (Phase.TO_APPLY, Phase.PROGRESSING, Phase.FAILED, Phase.SUCCEEDED)
    check_bounded(
        lambda count: longest_callback(
            in_slices(
                plan(
                    STRATEGY,
                    [Group(0, "", frozenset(f"c{number}" for number in range(count)))],
                    {f"c{number}": Member(phases[number % 4], NOW) for number in range(count)},
                    now=NOW,
                ),
                clock=SlowClock(),
            )
        ),
        sizes=(400, 1600),
        limit=CLUSTERS,
    )
