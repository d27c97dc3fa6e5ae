"""Claims of a hosting cluster about itself, under the names the hypershift add-on gave them.

A ClusterClaim on the hosting cluster shows in the status of its ManagedCluster, and placements select by it. The word
is the cluster's own and has no end of validity: that is what the score beside it is for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.api.claim import ClusterClaim
from fairway.kube import CLUSTER_CLAIMS, Client, Informer, KubeError, NotFound, Patch

MAXIMUM: Final = 80
THRESHOLD: Final = 60
"""Hosted clusters, if nothing else is said."""

HOSTING: Final = "hostingcluster.hypershift.openshift.io"
FULL: Final = "full.hostedclustercount.hypershift.openshift.io"
ABOVE: Final = "above.threshold.hostedclustercount.hypershift.openshift.io"
ZERO: Final = "zero.hostedclustercount.hypershift.openshift.io"

FIELD_MANAGER: Final = "fairway-provider-hosted-clusters"
LABELS: Final = {
    "app.kubernetes.io/managed-by": "fairway",
    # A backup that is restored elsewhere shall not bring claims about this cluster with it.
    "velero.io/exclude-from-backup": "true",
}

NOT_WRITTEN: Final = "the claims cannot be written: {why}"
NOT_SERVED: Final = (
    "the cluster does not serve ClusterClaims: install their definition (fairway crds prints it), "
    "or set claims to false"
)
NOT_LIMITS: Final = (
    "a maximum of {maximum} and a threshold of {threshold} cannot be limits: "
    "both must be at least 1, and the maximum not less than the threshold"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many hosted clusters are too many, and from how many on it gets tight."""

    maximum: int = MAXIMUM
    threshold: int = THRESHOLD

    def __post_init__(self) -> None:
        if self.threshold < 1 or self.maximum < self.threshold:
            raise ValueError(NOT_LIMITS.format(maximum=self.maximum, threshold=self.threshold))


def claimed(count: int, limits: Limits) -> Mapping[str, str]:
    """What is to be claimed when there are so many hosted clusters."""
    return {
        HOSTING: "true",
        FULL: _word(count >= limits.maximum),
        ABOVE: _word(count >= limits.threshold),
        ZERO: _word(count == 0),
    }


def _word(truth: bool) -> str:
    return "true" if truth else "false"


class Claims:
    """Written when they differ from what the cluster has."""

    def __init__(self, client: Client, known: Informer[ClusterClaim]) -> None:
        self._client, self._known = client, known

    async def write(self, wanted: Mapping[str, str]) -> str:
        """What went wrong, in words; empty when all is as it should be. What could be written is."""
        trouble = ""
        for name, value in wanted.items():
            there = self._known.get(name)
            if there is not None and there.spec.value == value:
                continue
            body = {
                "apiVersion": CLUSTER_CLAIMS.api_version,
                "kind": CLUSTER_CLAIMS.kind,
                "metadata": {"name": name, "labels": LABELS},
                "spec": {"value": value},
            }
            try:
                await self._client.patch(
                    CLUSTER_CLAIMS, name, body, kind=Patch.APPLY, field_manager=FIELD_MANAGER, force=True
                )
            except NotFound:
                return NOT_SERVED
            except KubeError as error:
                trouble = NOT_WRITTEN.format(why=error)
        return trouble
