"""Merge the template of a HostingPolicy under a request.

The fields that a request writes take precedence:

- Maps are merged, at every depth. Any other value of the request, also a list, replaces the one of the template.
- null removes the field of the template.
- A map that names another variant than the template's (``type``, ``managementType``, ``upgradeType``) replaces it: the
  other fields of the template belong to its variant, and a HostedCluster with fields of two variants is refused.

The template is recorded with the reservation: a hosted cluster must not change, and for example upgrade itself, because
an administrator changed the defaults for new ones.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_template import HostingTemplate

VARIANTS: Final = ("type", "managementType", "upgradeType")
"""Fields of HyperShift's kinds that say which of their sibling fields are used."""


def with_template(request: HostedClusterRequest, template: HostingTemplate | None) -> HostedClusterRequest:
    """Return the request with the defaults of a template: what is created on a host."""
    if template is None:
        return request
    spec = request.spec
    hosted, defaults = spec.hostedCluster, template.hostedCluster
    pools = tuple(
        structs.replace(
            pool,
            labels={**template.nodePool.labels, **pool.labels},
            spec=_merged(template.nodePool.spec, pool.spec),
        )
        for pool in spec.nodePools
    )
    named = {secret.name for secret in spec.secrets}
    return structs.replace(
        request,
        spec=structs.replace(
            spec,
            hostedCluster=structs.replace(
                hosted,
                labels={**defaults.labels, **hosted.labels},
                annotations={**defaults.annotations, **hosted.annotations},
                spec=_merged(defaults.spec, hosted.spec),
            ),
            nodePools=pools,
            secrets=(*spec.secrets, *(secret for secret in template.secrets if secret.name not in named)),
        ),
    )


def as_accepted(request: HostedClusterRequest) -> HostedClusterRequest:
    """Return a request that has a place, with the defaults that were recorded with it."""
    accepted = request.status.accepted
    return request if accepted is None else with_template(request, accepted.template)


def content_digest(request: HostedClusterRequest) -> str:
    """Return a digest of what a request, with its defaults, creates on a host."""
    spec = request.spec
    content = (spec.hostedCluster, spec.nodePools, spec.secrets, spec.availability)
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:32]


def _merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The depth of the recursion is that of the template, whatever a request contains."""
    if any(
        field in defaults and given.get(field) is not None and given[field] != defaults[field]
        for field in VARIANTS
    ):
        return {field: value for field, value in given.items() if value is not None or field not in defaults}
    merged = {**defaults, **given}
    for field, default in defaults.items():
        value = merged[field]
        if value is None:
            del merged[field]
        elif isinstance(default, Mapping) and isinstance(value, Mapping):
            merged[field] = _merged(default, value)
    return merged
