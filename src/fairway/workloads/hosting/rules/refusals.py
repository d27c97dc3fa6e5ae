"""What hosting clusters refuse: whose fault it is, and when it is tried again.

A ManifestWork whose HostedCluster is refused creates nothing, and until its deadline it would hold room that others
could use. So the first refusal gives the place up. Where the object is the reason, no other host is tried: each would
refuse it, too. Where the host is the reason, the others are tried. Refusals that pass by themselves wait for the
deadline.

The reason is found in the text of the condition: agents report no codes. The first group of words decides. A user may
have put words of another group into the object; at most, that sends the own request to another host, which refuses it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from fairway.api.hosted_request import (
    HOST_CAUSE,
    MOST_REFUSALS,
    OBJECT_CAUSE,
    HostedClusterRequest,
    HostingRefusal,
)
from fairway.api.work import WORK_APPLIED, ManifestCondition, ManifestWork
from fairway.engine.workload import HostKey
from fairway.workloads.hosting.rules.template import content_digest
from kubewire.api.meta import FALSE, TRUE, find_condition

REFUSED: Final = (
    "spec.hostedCluster: hosting cluster {host} refused what the request creates: {message}; correct the request, or "
    "the template of policy {policy}. Unchanged, it is tried again {retry}"
)
LONGEST: Final = 1000
FIRST_RETRY: Final = timedelta(minutes=10)
LAST_RETRY: Final = timedelta(hours=6)
"""The time to a retry doubles up to this."""

_KINDS: Final = ("Namespace", "HostedCluster")
"""Without these, nothing of the hosted cluster exists on the host."""
_OF_OBJECT: Final = (
    " is invalid:",
    "is not a valid name",
    "field not declared in schema",
    "failed to create typed patch object",
    "strict decoding error",
    "unknown field",
    "denied the request",
)
_PASSING: Final = (
    "being terminated",
    "is being deleted",
    "failed calling webhook",
    "Internal error occurred",
    "timeout",
    "timed out",
    "deadline exceeded",
    "connection refused",
    "the object has been modified",
    "too many requests",
)
_CONFLICTS: Final = ("Apply failed with", "conflict with", "is also in ManifestWork")
_OF_HOST: Final = (
    *_CONFLICTS,
    "doesn't have a resource type",
    "no matches for kind",
    "could not find the requested resource",
    "forbidden",
    "not allowed to apply",
)


class RefusedContentError(ValueError):
    """A host has refused exactly what the request would create."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    cause: str
    message: str


def is_refused(manifest: ManifestCondition, *, generation: int) -> bool:
    """Return whether an agent could not apply a manifest of this generation of a work."""
    applied = find_condition(manifest.conditions, WORK_APPLIED)
    # Older agents do not report the generation.
    return applied is not None and applied.status == FALSE and applied.observedGeneration in (0, generation)


def text_of(manifest: ManifestCondition) -> str:
    """Return what an agent reports about a manifest. Where the host does not know its kind, it has no resource."""
    meta, applied = manifest.resourceMeta, find_condition(manifest.conditions, WORK_APPLIED)
    name = f"{meta.namespace}/{meta.name}".strip("/")
    return f"{meta.kind or meta.resource} {name}: {'' if applied is None else applied.message}"


def refused_manifests(work: ManifestWork) -> list[str]:
    """Return what the hosting cluster reports about the manifests that it could not apply."""
    return [
        text_of(manifest)
        for manifest in work.status.resourceStatus.manifests
        if is_refused(manifest, generation=work.metadata.generation)
    ]


def is_conflict(text: str) -> bool:
    return any(words in text for words in _CONFLICTS)


def are_applied(work: ManifestWork) -> bool:
    """Return whether the hosting cluster reports all manifests of this generation as applied."""
    applied = [
        condition
        for manifest in work.status.resourceStatus.manifests
        if (condition := find_condition(manifest.conditions, WORK_APPLIED)) is not None
        and condition.status == TRUE
        and condition.observedGeneration in (0, work.metadata.generation)
    ]
    return len(applied) == len(work.spec.workload.manifests)


def refusal_of(work: ManifestWork) -> Refusal | None:
    """Return why the host will not create the hosted cluster; None if it did, or may still do."""
    refused = [
        manifest
        for manifest in work.status.resourceStatus.manifests
        if manifest.resourceMeta.kind in _KINDS and is_refused(manifest, generation=work.metadata.generation)
    ]
    for manifest in refused:
        text = text_of(manifest)
        if (cause := cause_of(text)) is not None:
            return Refusal(cause=cause, message=text[:LONGEST])
    return None


def cause_of(text: str) -> str | None:
    """Return Object or Host; None if it may pass by itself."""
    if any(words in text for words in _OF_OBJECT):
        return OBJECT_CAUSE
    if any(words in text for words in _PASSING):
        return None
    return HOST_CAUSE if any(words in text for words in _OF_HOST) else None


def with_refusal(
    request: HostedClusterRequest, refusal: Refusal, *, host: HostKey, now: datetime
) -> tuple[HostingRefusal, ...]:
    """Return the refusals of a request with one more. ``request`` has the defaults of its template."""
    content = content_digest(request)
    before = request.status.refusals
    old = next((earlier for earlier in before if (earlier.name, earlier.uid) == (host.name, host.uid)), None)
    again = old is not None and (old.cause, old.content) == (refusal.cause, content)
    count = old.count + 1 if again and old is not None else 1
    wait = min(FIRST_RETRY * 2 ** min(count - 1, 16), LAST_RETRY)
    new = HostingRefusal(
        name=host.name,
        uid=host.uid,
        cause=refusal.cause,
        message=refusal.message,
        content=content,
        count=count,
        retryTime=(now + wait).replace(microsecond=0),
    )
    return (new, *(earlier for earlier in before if earlier.name != host.name))[:MOST_REFUSALS]


def next_retry(refusals: Iterable[HostingRefusal]) -> datetime | None:
    return min((refusal.retryTime for refusal in refusals if refusal.retryTime is not None), default=None)


def without_due(refusals: Iterable[HostingRefusal], *, now: datetime) -> tuple[HostingRefusal, ...]:
    """Return the refusals, so that what is due is tried again. Their counts stay, for the next time to a retry."""
    return tuple(
        structs.replace(refusal, retryTime=None)
        if refusal.retryTime is not None and refusal.retryTime <= now
        else refusal
        for refusal in refusals
    )


def check_not_refused(request: HostedClusterRequest, *, policy: str) -> None:
    """Raises RefusedContentError. ``request`` has the defaults of its template; any change of it is tried at once."""
    active = [
        refusal
        for refusal in request.status.refusals
        if refusal.cause == OBJECT_CAUSE and refusal.retryTime is not None
    ]
    if not active:
        return
    content = content_digest(request)
    for refusal in active:
        if refusal.content == content and refusal.retryTime is not None:
            retry = f"after {refusal.retryTime:%Y-%m-%dT%H:%M:%SZ}"
            raise RefusedContentError(
                REFUSED.format(host=refusal.name, message=refusal.message, policy=policy, retry=retry)
            )


def avoided_hosts(request: HostedClusterRequest) -> Mapping[HostKey, str]:
    """Return the hosts that refused the request for a reason of their own, with their words."""
    return {
        HostKey(refusal.name, refusal.uid): refusal.message
        for refusal in request.status.refusals
        if refusal.cause == HOST_CAUSE and refusal.retryTime is not None
    }
