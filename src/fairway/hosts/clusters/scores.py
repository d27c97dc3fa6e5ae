"""Published scores as cells: score, object, expiry, and whether it was marked silent."""

from collections.abc import Mapping
from typing import Final

from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.hosts.clusters.cells import SCORE_OBJECT
from fairway.hosts.column import NEVER, Key
from fairway.hosts.instant import Micros, to_micros
from kubewire.api.meta import TRUE

SILENT: Final = "fairway.dev/Silent"
"""The condition of an AddOnPlacementScore whose provider stopped publishing; its values were replaced."""

ScoreTable = dict[str, AddOnPlacementScore]
"""AddOnPlacementScores of one name, by cluster."""
CalculatorTable = dict[str, ManagedClusterScore]
"""ManagedClusterScores of one calculator, by cluster."""


def expiry(score: AddOnPlacementScore) -> Micros:
    valid_until = score.status.validUntil
    return NEVER if valid_until is None else to_micros(valid_until)


def score_item(score: AddOnPlacementScore, name: str) -> tuple[int | None, Micros]:
    """Return (value or None if the object lacks this score, expiry)."""
    for item in reversed(score.status.scores):
        if item.name == name:
            return item.value, expiry(score)
    return None, expiry(score)


def is_silent(score: AddOnPlacementScore) -> bool:
    return any(condition.type == SILENT and condition.status == TRUE for condition in score.status.conditions)


def is_stand_in(score: AddOnPlacementScore) -> bool:
    """Return whether the score controller replaced the values of a silent provider.

    A provider that published since has set ``validUntil`` again, even if no controller runs to remove the
    condition.
    """
    return is_silent(score) and score.status.validUntil is None


def score_object(score: AddOnPlacementScore) -> tuple[int, Micros]:
    """Return (1 if it was marked silent, else 0; expiry)."""
    return int(is_silent(score)), expiry(score)


def cell_of(score: AddOnPlacementScore, key: Key) -> tuple[int | None, Micros]:
    return score_object(score) if key[0] == SCORE_OBJECT else score_item(score, key[2])


def score_cell(tables: Mapping[str, ScoreTable], cluster: str, key: Key) -> tuple[int | None, Micros] | None:
    score = tables.get(key[1], {}).get(cluster)
    return None if score is None else cell_of(score, key)


def calculator_of(score: ManagedClusterScore) -> str | None:
    """Return the lower-case calculator in the name ``{cluster}-{calculator}``; None for another form."""
    cluster = score.metadata.namespace.lower()
    name = score.metadata.name.lower()
    return name[len(cluster) + 1 :] if cluster and name.startswith(f"{cluster}-") else None


def calculator_cell(
    tables: Mapping[str, CalculatorTable], cluster: str, key: Key
) -> tuple[int | None, Micros] | None:
    score = tables.get(key[1], {}).get(cluster)
    return None if score is None else (score.value, NEVER)
