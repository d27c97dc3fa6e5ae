"""Authenticate and authorize requests, by TokenReviews and SubjectAccessReviews on the hub.

The user of a token is cached for a few seconds. Permissions are checked on every request, so that a revoked permission
takes effect at once. Reviews are rate limited, because unauthenticated clients can cause them.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from fairway.kube import PLACEMENTS, SYSTEM_CLOCK, Client, Clock, TokenBucket
from fairway.kube.errors import UnreadableError
from fairway.kube.rbac import Rule

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
REMEMBERED: Final = 1024
STRANGERS_BURST: Final = 50
STRANGERS_EVERY: Final = 0.1
"""Seconds between reviews of unknown tokens, once the burst is used up."""


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
        found: dict[str, Any] = {"user": self.name, "groups": list(self.groups)}
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return found


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
        self._known: OrderedDict[bytes, tuple[User | None, float]] = OrderedDict()
        """Users and their expiry by the digest of the token; tokens are not stored."""
        self._strangers = TokenBucket(burst=STRANGERS_BURST, every=STRANGERS_EVERY)

    async def user(self, token: str) -> User | None:
        """The user of a token; None if the hub rejects it. Raise KubeError and Busy."""
        digest = hashlib.sha256(token.encode()).digest()
        now = self._clock.monotonic()
        known = self._known.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        if not self._strangers.take(now):
            raise TooManyReviews
        asked: dict[str, Any] = {"token": token}
        if self._audiences:
            asked["audiences"] = list(self._audiences)
        status = (await self._ask(TOKEN_REVIEWS, _TokenReview, asked)).status
        info = status.user
        user = None
        # A hub that knows no audiences returns none.
        meant = not self._audiences or not set(self._audiences).isdisjoint(status.audiences or ())
        if status.authenticated and meant and info.username:
            user = User(name=info.username, groups=info.groups or (), extra=info.extra or {})
        self._known[digest] = (user, now + REMEMBERED_SECONDS)
        self._known.move_to_end(digest)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return user

    async def path(self, user: User, *, verb: str, path: str) -> AccessDecision:
        """Raises KubeError."""
        return await self._allowed(user, {"nonResourceAttributes": {"path": path, "verb": verb}})

    async def placements(self, user: User, *, verb: str, namespace: str) -> AccessDecision:
        """Check access in a namespace, or with an empty one in all. Raise KubeError."""
        asked = {
            "namespace": namespace,
            "verb": verb,
            "group": PLACEMENTS.group,
            "version": PLACEMENTS.version,
            "resource": PLACEMENTS.plural,
        }
        return await self._allowed(user, {"resourceAttributes": asked})

    async def _allowed(self, user: User, asked: dict[str, Any]) -> AccessDecision:
        review = await self._ask(ACCESS_REVIEWS, _AccessReview, {**user.subject(), **asked})
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
