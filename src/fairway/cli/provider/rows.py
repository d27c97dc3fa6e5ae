"""Published scores as rows of a table and as objects."""

from collections.abc import Iterator
from typing import Any, Final

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.cli.output import Row
from fairway.providers.placement_scores import status_of
from fairway.providers.provider_loop import ProviderLoop
from fairway.providers.publication import Publication
from fairway.providers.runner import Runner
from fairway.providers.sink import labels_of
from kubewire.api.meta import format_time

COLUMNS: Final = {
    "cluster": "Cluster",
    "resource": "Resource",
    "score": "Score",
    "value": "Value",
    "raw": "Raw",
    "valid": "Valid Until",
    "reason": "Problem",
}


def rows(runner: Runner) -> list[Row]:
    """Return a row for each score, and one for each cluster without scores."""
    collected: list[Row] = []
    for loop, cluster, publication in _published(runner):
        units = {score.name: score.unit for score in loop.provider.scores}
        same = {
            "cluster": cluster,
            "resource": loop.provider.resource,
            "valid": format_time(publication.valid_until) if publication.valid_until else "",
            "reason": "" if publication.ok else publication.reason,
        }
        for name, value in publication.scores:
            raw = publication.raw.get(name)
            text = "" if raw is None else f"{raw:.6g} {units.get(name, '')}".strip()
            collected.append({**same, "score": name, "value": value, "raw": text})
        if not publication.scores:
            collected.append({**same, "valid": ""})
    return collected


def document(runner: Runner) -> dict[str, Any]:
    """Return the objects as `kubectl get -o yaml` shows them."""
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": ADD_ON_PLACEMENT_SCORES.api_version,
                "kind": ADD_ON_PLACEMENT_SCORES.kind,
                "metadata": {
                    "name": loop.provider.resource,
                    "namespace": cluster,
                    "labels": labels_of(loop.name),
                },
                "status": status_of(publication),
            }
            for loop, cluster, publication in _published(runner)
        ],
    }


def _published(runner: Runner) -> Iterator[tuple[ProviderLoop, str, Publication]]:
    for _, loop in sorted(runner.loops.items()):
        for cluster, publishing in sorted(loop.publisher.clusters.items()):
            if publishing.published is not None and publishing.published.valid_until is not None:
                yield loop, cluster, publishing.published
