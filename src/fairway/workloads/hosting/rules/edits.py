"""What a request with a place may still change.

The filters decide about names and Secrets before a place is reserved. A user may edit a request afterwards, and then no
filter runs: the ManifestWork would follow the edit, whatever the policy says and whose names these are.
"""

from typing import Final

from msgspec import structs

from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.work import ManifestWork
from fairway.engine.workload import HostKey
from fairway.workloads.hosting.fleet.residents import ObjectName, Residents
from fairway.workloads.hosting.rules.permits import NotPermitted
from fairway.workloads.hosting.rules.policy import Policy
from fairway.workloads.hosting.workload import hosted_name, objects_of

TAKEN: Final = (
    "{field}: {kind} {name} on hosting cluster {host} belongs to request {owner}; write another name"
)
_FIELDS: Final = {"NodePool": "spec.nodePools", "Secret": "spec.secrets"}
"""What can be edited, by kind."""


def check_edit(
    request: HostedClusterRequest,
    host: HostKey,
    *,
    written: ManifestWork | None,
    policy: Policy,
    residents: Residents,
) -> None:
    """Check the names that an edit adds. Raises NotPermitted.

    ``request`` has the defaults of its template, ``policy`` is the one that reserved its place. What is written already
    stays, so that a stricter policy, or a request that claims a name later, does not block further edits.
    """
    kept = _names(written)
    namespace, _ = hosted_name(request)
    secrets = tuple(
        secret for secret in request.spec.secrets if ("Secret", namespace, secret.name) not in kept
    )
    added = structs.replace(request, spec=structs.replace(request.spec, secrets=secrets))
    policy.permits.check_secret_names(added, policy=policy.name)
    for kind, within, name, source in sorted(objects_of(request, namespace)):
        if kind not in _FIELDS or (kind, within, name) in kept:
            continue
        owner = residents.on(host).owner_of((kind, within, name), source=source)
        if owner is not None:
            raise NotPermitted(
                TAKEN.format(
                    field=_FIELDS[kind], kind=kind, name=f"{within}/{name}", host=host.name, owner=owner
                )
            )


def _names(work: ManifestWork | None) -> set[ObjectName]:
    if work is None:
        return set()
    return {
        (
            manifest.get("kind", ""),
            manifest.get("metadata", {}).get("namespace", ""),
            manifest.get("metadata", {}).get("name", ""),
        )
        for manifest in work.spec.workload.manifests
    }
