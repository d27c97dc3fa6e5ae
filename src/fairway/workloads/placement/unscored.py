"""The condition of a Placement that ranks by a score that none of its clusters has.

Such a score counts 0 everywhere, so the Placement selects by name. It is a separate condition,
because OCM's two conditions must equal what OCM writes.
"""

from typing import Final

from fairway.api.placement import ADD_ON
from fairway.engine.outcome import Outcome
from fairway.hosts.clusters import cells
from fairway.workloads.placement.workload import placement_of
from kubewire.api.meta import TRUE, Condition

UNSCORED: Final = "fairway.dev/ScoreMissing"
NOT_PUBLISHED: Final = "ScoreNotPublished"
PROBLEM: Final = "no candidate has a score {scores}, so it counts 0 everywhere and decides nothing"
REMEDY: Final = "check resourceName and scoreName, or install the provider that publishes it"


CONDITIONS: Final = {
    ("Placement", UNSCORED): {NOT_PUBLISHED: "No candidate has a score that the Placement ranks by."}
}


def unscored_condition(outcome: Outcome) -> Condition | None:
    """None if some candidate has every score that the placement ranks by, or if there are no candidates."""
    problem = unscored(outcome)
    if not problem:
        return None
    return Condition(type=UNSCORED, status=TRUE, reason=NOT_PUBLISHED, message=f"{problem}: {REMEDY}")


def unscored(outcome: Outcome) -> str:
    """Name the scores that the placement ranks by and no candidate has. Empty if there are none."""
    missing: list[str] = []
    policy = placement_of(outcome.context).placement.spec.prioritizerPolicy
    for configuration in policy.configurations if policy is not None else ():
        coordinate = configuration.scoreCoordinate
        if (
            coordinate is None
            or coordinate.type != ADD_ON
            or coordinate.addOn is None
            or not configuration.weight
        ):
            continue
        wanted = coordinate.addOn
        if _is_unknown(outcome, wanted.resourceName, wanted.scoreName):
            missing.append(f"{wanted.resourceName}/{wanted.scoreName}")
    return PROBLEM.format(scores=", ".join(missing)) if missing else ""


def _is_unknown(outcome: Outcome, resource: str, score: str) -> bool:
    present = outcome.snapshot.score_column((cells.SCORE, resource, score)).present
    if not len(outcome.selected_rows) or present[outcome.selected_rows].any():
        return False
    # Last, because the rows that were not selected are computed again.
    return not present[outcome.details.rows].any()
