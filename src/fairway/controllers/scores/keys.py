"""Keys of the score controller's queue, one type for each kind. Log lines show them as text."""

from dataclasses import dataclass

from fairway.api.score import AddOnPlacementScore


@dataclass(frozen=True, slots=True)
class ScoreKey:
    """An AddOnPlacementScore."""

    cluster: str
    resource: str
    """Its name, which all clusters' scores of a provider share."""

    def __str__(self) -> str:
        return f"{self.cluster}/{self.resource}"


@dataclass(frozen=True, slots=True)
class ManagedClusterScoreKey:
    """A ManagedClusterScore that placements may not read."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


ScoresKey = ScoreKey | ManagedClusterScoreKey


def key_of(score: AddOnPlacementScore) -> ScoreKey:
    return ScoreKey(score.metadata.namespace, score.metadata.name)
