"""Whose fault a refusal is, and when the request is tried again."""

from datetime import timedelta

import msgspec
import pytest
from msgspec import structs

from fairway.api.hosted_request import MOST_REFUSALS, HostedClusterRequest
from fairway.engine.workload import HostKey
from fairway.workloads.hosting.rules.refusals import (
    FIRST_RETRY,
    LAST_RETRY,
    Refusal,
    RefusedContentError,
    avoided_hosts,
    cause_of,
    check_not_refused,
    is_conflict,
    with_refusal,
    without_due,
)
from workloads.hosting.hosts import START, request

HOST = HostKey("h1", "u1")
INVALID = Refusal(cause="Object", message="spec.release: Required value")
NO_KIND = Refusal(cause="Host", message="no matches for kind")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('HostedCluster.hypershift.openshift.io "a" is invalid: spec.release: Required value', "Object"),
        ('failed to create typed patch object (c/a): .spec.foo: field not declared in schema', "Object"),
        ('admission webhook "h.x" denied the request: no such release', "Object"),
        ('HostedCluster.hypershift.openshift.io "a" is invalid: spec.x: Invalid value: "is forbidden"', "Object"),
        ("the server doesn't have a resource type 'HostedCluster' in hypershift.openshift.io/v1beta1", "Host"),
        ('no matches for kind "HostedCluster" in version "hypershift.openshift.io/v1beta1"', "Host"),
        ("the server could not find the requested resource", "Host"),
        ('Apply failed with 1 conflict: conflict with "kubectl" using v1: .spec.release', "Host"),
        ("hostedclusters is forbidden: User agent cannot patch resource", "Host"),
        ("not allowed to apply the resource hypershift.openshift.io hostedclusters, c a", "Host"),
        ('namespaces "c" is forbidden: namespace c is being terminated', None),
        ('Internal error occurred: failed calling webhook "h.x": connect: connection refused', None),
        ('namespaces "c" not found', None),
        ("context deadline exceeded", None),
        ("something new", None),
    ],
)  # fmt: skip
def test_words_of_agents_tell_the_object_from_the_host(text: str, cause: str | None) -> None:
    assert cause_of(f"HostedCluster c/a: Failed to apply manifest: {text}") == cause


def test_conflicts_are_told_from_other_refusals() -> None:
    assert is_conflict('Apply failed with 1 conflict: conflict with "kubectl"')
    assert not is_conflict("spec.release: Required value")


def after(asked: HostedClusterRequest, refusal: Refusal, host: HostKey = HOST) -> HostedClusterRequest:
    refusals = with_refusal(asked, refusal, host=host, now=START)
    return structs.replace(asked, status=structs.replace(asked.status, refusals=refusals))


def test_refused_content_is_not_tried_until_it_changes_or_the_time_is_over() -> None:
    asked = after(request("web"), INVALID)
    with pytest.raises(RefusedContentError, match=r"h1 refused .*: spec\.release: Required value; correct"):
        check_not_refused(asked, policy="default")
    check_not_refused(
        structs.replace(request("web", availability="SingleReplica"), status=asked.status), policy="p"
    )
    assert avoided_hosts(asked) == {}
    due = without_due(asked.status.refusals, now=START + FIRST_RETRY)
    check_not_refused(structs.replace(asked, status=structs.replace(asked.status, refusals=due)), policy="p")
    assert without_due(asked.status.refusals, now=START) == asked.status.refusals


def test_time_to_a_retry_doubles_up_to_a_limit_and_starts_again_for_other_content() -> None:
    asked, waits = request("web"), []
    for _ in range(8):
        asked = after(asked, INVALID)
        (refusal,) = asked.status.refusals
        assert refusal.retryTime is not None
        waits.append(refusal.retryTime - START)
    assert waits[:3] == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]
    assert waits[-2:] == [LAST_RETRY, LAST_RETRY]
    changed = structs.replace(request("web", availability="SingleReplica"), status=asked.status)
    (refusal,) = after(changed, INVALID).status.refusals
    assert (refusal.count, refusal.retryTime) == (1, START + FIRST_RETRY)


def test_host_that_refused_is_avoided_and_others_are_not() -> None:
    asked = after(request("web"), NO_KIND)
    check_not_refused(asked, policy="default")
    assert avoided_hosts(asked) == {HOST: NO_KIND.message}
    assert HostKey("h1", "recreated") not in avoided_hosts(asked)


def test_refusals_are_bounded_and_forget_the_oldest() -> None:
    asked = request("web")
    for number in range(MOST_REFUSALS + 5):
        asked = after(asked, NO_KIND, HostKey(f"h{number}", "u"))
    names = [refusal.name for refusal in asked.status.refusals]
    assert names == [f"h{number}" for number in range(MOST_REFUSALS + 4, 4, -1)]
    long = after(request("web"), Refusal(cause="Host", message="x" * 1000))
    assert len(msgspec.json.encode(long.status)) < 1400
    assert timedelta(0) < FIRST_RETRY < LAST_RETRY
