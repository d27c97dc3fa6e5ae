"""Published scores: expired, out of range, or without a cluster.

Findings about all scores of a resource, such as a missing validUntil, are reported once per resource.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from fairway.api.score import AddOnPlacementScore, managed_cluster_score_name
from fairway.hosts.clusters.scores import calculator_of, expiry
from fairway.hosts.instant import SECOND, Micros, from_micros
from fairway.lint.finding import Finding, error, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess, some
from fairway.workloads.placement.plugins.calculator import HIGHEST, LOWEST
from fairway.workloads.placement.plugins.prioritizer_policy import built_in_named_like
from kubewire.api.meta import format_time
from kubewire.api.selector import quote

EXPIRED: Final = warning("score-expired", "Scores have expired.")
EXPIRES_SOON: Final = info("score-expires-soon", "Scores expire within minutes.")
NEVER_EXPIRES: Final = info(
    "score-never-expires", "Scores have no validUntil, so a dead provider goes unnoticed."
)
OUT_OF_RANGE: Final = error("score-out-of-range", "A score is outside -100 to 100.")
CLUSTER_UNKNOWN: Final = warning(
    "score-cluster-unknown", "The score belongs to a cluster that does not exist."
)
NAME_WRONG: Final = warning(
    "cluster-score-name",
    "A ManagedClusterScore is not named <cluster>-<calculator>, so no placement reads it.",
)
NAMED_LIKE_BUILT_IN: Final = warning(
    "cluster-score-built-in",
    "A ManagedClusterScore has the name of a built-in, which placements use instead.",
)

RULES: Final = (
    EXPIRED,
    EXPIRES_SOON,
    NEVER_EXPIRES,
    OUT_OF_RANGE,
    CLUSTER_UNKNOWN,
    NAME_WRONG,
    NAMED_LIKE_BUILT_IN,
)

SOON_EXPIRED: Final[Micros] = 300 * SECOND


def check(scene: Scene) -> Iterator[Finding]:
    by_resource: dict[str, list[AddOnPlacementScore]] = {}
    known = scene.snapshot.hosts.row_of
    for score in scene.addon_scores:
        by_resource.setdefault(score.metadata.name, []).append(score)
        yield from _values(score)
        if scene.populated and score.metadata.namespace not in known:
            yield CLUSTER_UNKNOWN.at(score, "metadata.namespace", *_stray(scene, score.metadata.namespace))
    for resource, scores in by_resource.items():
        yield from _ends(scene, resource, scores)
    for cluster_score in scene.cluster_scores:
        cluster, calculator = cluster_score.metadata.namespace, calculator_of(cluster_score)
        if builtin := built_in_named_like(calculator):
            yield NAMED_LIKE_BUILT_IN.at(
                cluster_score,
                "metadata.name",
                f"placements do not read this score: {builtin} is a built-in prioritizer, "
                "which scores clusters by itself",
                "publish the score under the name of another calculator, and name that calculator in the placement",
            )
        if not calculator:
            yield NAME_WRONG.at(
                cluster_score,
                "metadata.name",
                f"{quote(cluster_score.metadata.name)} does not start with {quote(f'{cluster.lower()}-')}, "
                "so no placement reads it",
                f"name it like {quote(managed_cluster_score_name(cluster=cluster, calculator='ResourceRatioCPU'))}",
            )
        if scene.populated and cluster not in known:
            yield CLUSTER_UNKNOWN.at(cluster_score, "metadata.namespace", *_stray(scene, cluster))


def _stray(scene: Scene, cluster: str) -> tuple[str, str]:
    return (
        f"there is no ManagedCluster {quote(cluster)}",
        guess(cluster, scene.snapshot.hosts.row_of, otherwise="delete the score or correct its namespace"),
    )


def _values(score: AddOnPlacementScore) -> Iterator[Finding]:
    for at, item in enumerate(score.status.scores):
        if not LOWEST <= item.value <= HIGHEST:
            yield OUT_OF_RANGE.at(
                score,
                f"status.scores[{at}].value",
                f"score {quote(item.name)} is {item.value}, outside {LOWEST} to {HIGHEST}",
                "have the provider scale its scores",
            )


def _ends(scene: Scene, resource: str, scores: Sequence[AddOnPlacementScore]) -> Iterator[Finding]:
    total = f"of {count(len(scores), 'AddOnPlacementScore')} named {quote(resource)}"
    expired = [score for score in scores if expiry(score) < scene.now]
    soon = [score for score in scores if scene.now <= expiry(score) < scene.now + SOON_EXPIRED]
    endless = [score for score in scores if score.status.validUntil is None]
    path = "status.validUntil"
    if expired:
        yield EXPIRED.at(
            expired[0],
            path,
            f"{len(expired)} {total} expired: {_when(expired)}",
            "check why the provider stopped publishing",
        )
    if soon:
        yield EXPIRES_SOON.at(
            soon[0],
            path,
            f"{len(soon)} {total} will expire soon: {_when(soon)}",
            "check that the provider runs",
        )
    if endless:
        yield NEVER_EXPIRES.at(
            endless[0],
            "status",
            f"{len(endless)} {total} without validUntil: a dead provider would go unnoticed",
            "have the provider set validUntil a few periods ahead",
        )


def _when(scores: Sequence[AddOnPlacementScore]) -> str:
    return some(
        [f"{score.metadata.namespace} at {format_time(from_micros(expiry(score)))}" for score in scores]
    )
