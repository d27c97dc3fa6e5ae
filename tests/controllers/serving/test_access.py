"""What the hub is asked, word for word, and what is made of its answers."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from clocks import ManualClock
from fairway.controllers.serving import RULES
from fairway.controllers.serving import access as access_module
from fairway.controllers.serving.access import (
    ACCESS_REVIEWS,
    REMEMBERED_SECONDS,
    TOKEN_REVIEWS,
    UNKNOWN_BURST,
    UNKNOWN_EVERY,
    AccessDecision,
    Authorizer,
    TooManyReviews,
    User,
)
from kubewire.client import Client, Connection, Forbidden
from kubewire.client.errors import UnreadableError
from kubewire.client.transport import Response

ALICE = User(name="alice", groups=("team", "system:authenticated"), extra={"example.com/scope": ("a", "b")})
KNOWN = {
    "authenticated": True,
    "user": {
        "username": "alice",
        "uid": "u-1",
        "groups": ["team", "system:authenticated"],
        "extra": {"example.com/scope": ["a", "b"]},
    },
}


class Hub(Client):
    """Answers every review with the same status, and remembers what it was asked."""

    def __init__(self, status: object = None) -> None:
        super().__init__(Connection(server="https://hub.invalid"))
        self.status = status
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.raw: bytes | None = None
        self.error: Exception | None = None

    async def request(self, method: str, path: str, **options: Any) -> Response:
        body = options["body"]
        assert isinstance(body, Mapping)
        assert options["repeatable"]
        self.asked.append((method, path, dict(body)))
        if self.error is not None:
            raise self.error
        answer = {**body, "status": self.status}
        return Response(status=201, headers={}, body=self.raw or json.dumps(answer).encode())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_access_checks_need_only_rights_for_reviews() -> None:
    assert [(rule.groups, rule.resources, rule.verbs, rule.names) for rule in RULES] == [
        (("authentication.k8s.io",), ("tokenreviews",), ("create",), ()),
        (("authorization.k8s.io",), ("subjectaccessreviews",), ("create",), ()),
    ]


async def test_token_review_returns_the_user(clock: ManualClock) -> None:
    hub = Hub(KNOWN)
    assert await Authorizer(hub, clock=clock).user("secret") == ALICE
    assert hub.asked == [("POST", TOKEN_REVIEWS, {"spec": {"token": "secret"}})]


@pytest.mark.parametrize(
    "status",
    [
        {"user": {}, "error": "invalid bearer token"},
        {"authenticated": False, "user": {"username": "alice"}},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {},
    ],
)
async def test_unauthenticated_review_is_rejected(clock: ManualClock, status: dict[str, Any]) -> None:
    assert await Authorizer(Hub(status), clock=clock).user("secret") is None


async def test_user_without_groups_is_accepted(clock: ManualClock) -> None:
    status = {"authenticated": True, "user": {"username": "bob", "groups": None, "extra": None}}
    assert await Authorizer(Hub(status), clock=clock).user("secret") == User(name="bob")


@pytest.mark.parametrize("status", [KNOWN, {}])
async def test_token_review_is_cached(clock: ManualClock, status: dict[str, Any]) -> None:
    hub = Hub(status)
    access = Authorizer(hub, clock=clock)
    first = await access.user("secret")
    clock.advance(REMEMBERED_SECONDS - 0.1)
    assert await access.user("secret") == first
    assert len(hub.asked) == 1
    clock.advance(0.2)
    assert await access.user("secret") == first
    assert len(hub.asked) == 2


async def test_cached_reviews_are_separate_by_token(clock: ManualClock) -> None:
    hub = Hub(KNOWN)
    access = Authorizer(hub, clock=clock)
    await access.user("secret")
    hub.status = {}
    assert await access.user("secret2") is None
    assert await access.user("secret") == ALICE


async def test_failed_review_is_not_cached(clock: ManualClock) -> None:
    hub = Hub(KNOWN)
    access = Authorizer(hub, clock=clock)
    hub.error = Forbidden("no", code=403)
    with pytest.raises(Forbidden):
        await access.user("secret")
    hub.error = None
    assert await access.user("secret") == ALICE


async def test_unknown_tokens_are_rate_limited(clock: ManualClock) -> None:
    hub = Hub(KNOWN)
    access = Authorizer(hub, clock=clock)
    await access.user("known")
    for number in range(UNKNOWN_BURST - 1):
        await access.user(f"made up {number}")
    with pytest.raises(TooManyReviews):
        await access.user("one too many")
    assert await access.user("known") == ALICE
    assert len(hub.asked) == UNKNOWN_BURST
    clock.advance(UNKNOWN_EVERY)
    assert await access.user("one too many") == ALICE


async def test_peer_that_invents_tokens_keeps_no_others_out(clock: ManualClock) -> None:
    hub = Hub(KNOWN)
    access = Authorizer(hub, clock=clock)
    assert await access.user("agent", peer="10.0.0.1") == ALICE
    hub.status = {}
    for number in range(UNKNOWN_BURST - 1):
        await access.user(f"made up {number}", peer="10.0.0.1")
    with pytest.raises(TooManyReviews):
        await access.user("one too many", peer="10.0.0.1")
    hub.status = KNOWN
    assert await access.user("other agent", peer="10.0.0.2") == ALICE
    # A token that was accepted is reviewed again, also when its peer has used up its share.
    clock.advance(REMEMBERED_SECONDS + 0.1)
    for number in range(UNKNOWN_BURST):
        await access.user(f"made up later {number}", peer="10.0.0.1")
    with pytest.raises(TooManyReviews):
        await access.user("one too many", peer="10.0.0.1")
    assert await access.user("agent", peer="10.0.0.1") == ALICE


async def test_rejected_tokens_do_not_displace_accepted_ones(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "REJECTED", 2)
    hub = Hub(KNOWN)
    access = Authorizer(hub, clock=clock)
    assert await access.user("agent") == ALICE
    hub.status = {}
    for number in range(9):
        assert await access.user(f"made up {number}") is None
    asked = len(hub.asked)
    assert await access.user("agent") == ALICE
    assert await access.user("made up 8") is None
    assert len(hub.asked) == asked
    assert await access.user("made up 0") is None
    assert len(hub.asked) == asked + 1


async def test_token_cache_is_bounded(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "REMEMBERED", 3)
    hub = Hub(KNOWN)
    access = Authorizer(hub, clock=clock)
    for token in ("one", "two", "three", "four", "two", "three", "four"):
        await access.user(token)
    assert len(hub.asked) == 4
    await access.user("one")
    assert len(hub.asked) == 5
    clock.advance(REMEMBERED_SECONDS)
    for token in ("three", "two", "three"):  # the review of "four" is the oldest
        await access.user(token)
    assert len(hub.asked) == 7


async def test_path_review_has_user_groups_and_extra(clock: ManualClock) -> None:
    hub = Hub({"allowed": True, "reason": "RBAC: allowed"})
    verdict = await Authorizer(hub, clock=clock).path(ALICE, verb="get", path="/debug/placements/a/b")
    assert verdict == AccessDecision(True, "RBAC: allowed")
    spec = {
        "user": "alice",
        "groups": ["team", "system:authenticated"],
        "extra": {"example.com/scope": ["a", "b"]},
        "nonResourceAttributes": {"path": "/debug/placements/a/b", "verb": "get"},
    }
    assert hub.asked == [("POST", ACCESS_REVIEWS, {"spec": spec})]


@pytest.mark.parametrize("verb", ["get", "create"])
@pytest.mark.parametrize("namespace", ["ns1", ""])
async def test_placement_review_has_the_namespace(clock: ManualClock, verb: str, namespace: str) -> None:
    hub = Hub({"allowed": False, "reason": "no rule"})
    verdict = await Authorizer(hub, clock=clock).placements(ALICE, verb=verb, namespace=namespace)
    assert verdict == AccessDecision(False, "no rule")
    ((_, path, body),) = hub.asked
    assert path == ACCESS_REVIEWS
    assert body["spec"]["resourceAttributes"] == {
        "namespace": namespace,
        "verb": verb,
        "group": "cluster.open-cluster-management.io",
        "version": "v1beta1",
        "resource": "placements",
    }
    assert "uid" not in body["spec"]
    assert body["spec"]["extra"] == {"example.com/scope": ["a", "b"]}


async def test_access_reviews_are_not_cached(clock: ManualClock) -> None:
    hub = Hub({"allowed": True})
    access = Authorizer(hub, clock=clock)
    assert (await access.placements(ALICE, verb="get", namespace="ns1")).allowed
    hub.status = {"allowed": False}
    assert not (await access.placements(ALICE, verb="get", namespace="ns1")).allowed


async def test_denied_review_beats_allowed(clock: ManualClock) -> None:
    hub = Hub({"allowed": True, "denied": True})
    assert not (await Authorizer(hub, clock=clock).path(ALICE, verb="get", path="/")).allowed


@pytest.mark.parametrize("raw", [b"<html>", b"[]", b'{"status": {"allowed": "yes"}}', b'{"status": null}'])
async def test_malformed_review_denies_access(clock: ManualClock, raw: bytes) -> None:
    hub = Hub()
    hub.raw = raw
    with pytest.raises(UnreadableError, match="the hub's response is not a review"):
        await Authorizer(hub, clock=clock).path(ALICE, verb="get", path="/")
