"""Authenticate and authorize requests, by TokenReviews and SubjectAccessReviews on the hub.

The user of a token is cached for a few seconds. Permissions are checked on every request, so that a revoked permission
takes effect at once. Reviews are rate limited, because unauthenticated clients can cause them: for each peer, so that
one that invents tokens does not keep others out, and in total, which protects the hub. Tokens that the hub accepted
before have no limit, because each is reviewed once in a while.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from fairway.api.resources import PLACEMENTS
from kubewire.client import SYSTEM_CLOCK, Client, Clock, TokenBucket
from kubewire.client.errors import UnreadableError
from kubewire.client.rbac import Rule

AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"
TOKEN_REVIEWS: Final = f"/apis/{AUTHENTICATION}/v1/tokenreviews"
ACCESS_REVIEWS: Final = f"/apis/{AUTHORIZATION}/v1/subjectaccessreviews"

RULES: Final = (
    Rule(groups=(AUTHENTICATION,), resources=("tokenreviews",), verbs=("create",)),
    Rule(groups=(AUTHORIZATION,), resources=("subjectaccessreviews",), verbs=("create",)),
)
"""The permissions that the debug endpoint needs on the hub."""

NO_REVIEW: Final = "the hub's response is not a review: {why}"

REVIEW_SECONDS: Final = 10.0
REMEMBERED_SECONDS: Final = 10.0
REMEMBERED: Final = 8192
"""Accepted tokens, such as those of one agent on each node."""
REJECTED: Final = 1024
"""Rejected tokens: they must not displace accepted ones."""
UNKNOWN_BURST: Final = 50
UNKNOWN_EVERY: Final = 0.1
"""Seconds between reviews of unknown tokens from one peer, once the burst is used up."""
ALL_UNKNOWN_BURST: Final = 1000
ALL_UNKNOWN_EVERY: Final = 0.005
"""Of all peers together: enough for 5,000 agents within 20 seconds after a start."""
PEERS: Final = 4096


S = TypeVar("S", bound=Struct)


class TooManyReviews(Exception):
    """Too many reviews of unknown tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def subject(self) -> dict[str, Any]:
        """The user, with the fields of a SubjectAccessReview."""
        subject: dict[str, Any] = {"user": self.name, "groups": list(self.groups)}
        if self.extra:
            subject["extra"] = {key: list(values) for key, values in self.extra.items()}
        return subject


@dataclass(frozen=True, slots=True)
class AccessDecision:
    allowed: bool
    reason: str = ""


class _UserInfo(Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: _UserInfo = _UserInfo()
    audiences: tuple[str, ...] | None = None


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


def bearer_token(given: Sequence[str]) -> str:
    """Return the token in the Authorization headers of a request; empty if there is none.

    Several headers are rejected: they would let a client choose among identities.
    """
    scheme, _, token = given[0].strip().partition(" ") if len(given) == 1 else ("", "", "")
    token = token.strip()
    good = scheme.lower() == "bearer" and token.isascii() and token.isprintable() and " " not in token
    return token if good else ""


class Authorizer:
    """``audiences`` are those of which a token must have one; without any, tokens must be for the hub itself."""

    def __init__(
        self, client: Client, *, clock: Clock = SYSTEM_CLOCK, audiences: tuple[str, ...] = ()
    ) -> None:
        self._client, self._clock, self._audiences = client, clock, audiences
        self._users: OrderedDict[bytes, tuple[User, float]] = OrderedDict()
        """Users and their expiry by the digest of the token; tokens are not stored."""
        self._rejected: OrderedDict[bytes, float] = OrderedDict()
        self._unknown: OrderedDict[str, TokenBucket] = OrderedDict()
        self._all_unknown = TokenBucket(burst=ALL_UNKNOWN_BURST, every=ALL_UNKNOWN_EVERY)

    async def user(self, token: str, *, peer: str = "") -> User | None:
        """Return the user of a token; None if the hub rejects it. Raise KubeError and TooManyReviews.

        ``peer`` is the address of the client.
        """
        digest = hashlib.sha256(token.encode()).digest()
        now = self._clock.monotonic()
        cached = self._users.get(digest)
        if cached is not None and now < cached[1]:
            return cached[0]
        if now < self._rejected.get(digest, now):
            return None
        # Only for tokens that were never valid: a flood of invented ones must not keep known users out, and each review
        # is a request to the hub.
        if cached is None and not self._may_review(peer, now):
            raise TooManyReviews
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = list(self._audiences)
        status = (await self._ask(TOKEN_REVIEWS, _TokenReview, spec)).status
        info = status.user
        user = None
        # A hub that knows no audiences returns none.
        meant = not self._audiences or not set(self._audiences).isdisjoint(status.audiences or ())
        if status.authenticated and meant and info.username:
            user = User(name=info.username, groups=info.groups or (), extra=info.extra or {})
        # Also the rejection: a client that repeats a wrong token costs the hub nothing. Both are kept for a short time
        # only, so that a token that is revoked or just created is noticed.
        if user is None:
            self._users.pop(digest, None)
            self._rejected[digest] = now + REMEMBERED_SECONDS
            self._rejected.move_to_end(digest)
            while len(self._rejected) > REJECTED:
                self._rejected.popitem(last=False)
        else:
            self._rejected.pop(digest, None)
            self._users[digest] = (user, now + REMEMBERED_SECONDS)
            self._users.move_to_end(digest)
            while len(self._users) > REMEMBERED:
                self._users.popitem(last=False)
        return user

    def _may_review(self, peer: str, now: float) -> bool:
        bucket = self._unknown.pop(peer, None) or TokenBucket(burst=UNKNOWN_BURST, every=UNKNOWN_EVERY)
        self._unknown[peer] = bucket
        while len(self._unknown) > PEERS:
            self._unknown.popitem(last=False)
        # The peer's own bucket first: a peer that is over its limit takes nothing from the others.
        return bucket.take(now) and self._all_unknown.take(now)

    async def path(self, user: User, *, verb: str, path: str) -> AccessDecision:
        """Raises KubeError."""
        return await self._allowed(user, {"nonResourceAttributes": {"path": path, "verb": verb}})

    async def placements(self, user: User, *, verb: str, namespace: str) -> AccessDecision:
        """Check access in a namespace, or with an empty one in all. Raise KubeError."""
        attributes = {
            "namespace": namespace,
            "verb": verb,
            "group": PLACEMENTS.group,
            "version": PLACEMENTS.version,
            "resource": PLACEMENTS.plural,
        }
        return await self._allowed(user, {"resourceAttributes": attributes})

    async def _allowed(self, user: User, attributes: dict[str, Any]) -> AccessDecision:
        review = await self._ask(ACCESS_REVIEWS, _AccessReview, {**user.subject(), **attributes})
        return AccessDecision(review.status.allowed and not review.status.denied, review.status.reason)

    async def _ask(self, path: str, type_: type[S], spec: dict[str, Any]) -> S:
        # A review is idempotent.
        response = await self._client.request(
            "POST", path, body={"spec": spec}, timeout=REVIEW_SECONDS, repeatable=True
        )
        try:
            return msgspec.json.decode(response.body, type=type_)
        except msgspec.DecodeError as error:
            raise UnreadableError(NO_REVIEW.format(why=error)) from None
