"""Compare what a request creates with the fields that a hosting cluster requires.

The provider ``hosted-clusters`` publishes them as a ClusterClaim, whose form is in ``fairway.providers.hosted.schema``.
A host without the claim is not checked: it reports what it refuses.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from fairway.api.hosted_request import AVAILABILITY_FIELD, HostedClusterRequest

SCHEMA_CLAIM: Final = "schema.hosting.fairway.dev"
LONGEST: Final = 1024
HOSTED_CLUSTERS: Final = "hostedclusters"
NODE_POOLS: Final = "nodepools"
MORE: Final = "..."


@lru_cache(maxsize=256)
def required_fields(claim: str) -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Return the paths of required fields by plural; none for a claim in another form."""
    required: dict[str, tuple[tuple[str, ...], ...]] = {}
    for part in claim[:LONGEST].split(" ")[2:]:
        plural, is_list, paths = part.partition("=")
        if is_list:
            required[plural] = tuple(
                tuple(path.split(".")) for path in paths.split(",") if path not in ("", MORE)
            )
    return required


def missing_fields(claim: str, request: HostedClusterRequest) -> Iterator[str]:
    """Yield what a request, with the defaults of its template, lacks on a host with this claim."""
    required = required_fields(claim)
    hosted = request.spec.hostedCluster.spec
    if request.spec.availability:
        hosted = {**hosted, AVAILABILITY_FIELD: request.spec.availability}
    for path in required.get(HOSTED_CLUSTERS, ()):
        if not _has(hosted, path):
            yield ".".join(("spec.hostedCluster.spec", *path))
    for pool in request.spec.nodePools:
        for path in required.get(NODE_POOLS, ()):
            if not _has(pool.spec, path):
                yield ".".join((f"spec.nodePools[{pool.name}].spec", *path))


def _has(value: Any, path: tuple[str, ...]) -> bool:
    for field in path:
        if not isinstance(value, Mapping) or value.get(field) is None:
            return False
        value = value[field]
    return True
