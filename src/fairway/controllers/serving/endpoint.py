"""OCM's debug endpoint: evaluate a placement on request, for users who may get placements. It also returns where a
placement is in the queue.

The order of checks is OCM's, and visible to clients: authentication, access to the path, existence of the placement,
access to the placement. So a user with access to the path learns that a placement does not exist, even without access
to placements.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import msgspec
from aiohttp import web

from fairway.api.kinds import DecodeError, decode
from fairway.api.placement import Placement, PlacementSpec
from fairway.controllers.serving.access import Authorizer, TooManyReviews, User, bearer_token
from fairway.controllers.serving.debug import Inspector, document
from fairway.controllers.serving.http_server import (
    BODY_SECONDS,
    TEXT,
    BodyTooLarge,
    peer_address,
    read_body,
    trust,
)
from kubewire.client import SYSTEM_CLOCK, Clock, KubeError, TokenBucket

log: Final = logging.getLogger(__name__)

PREFIX: Final = "/debug/placements/"
QUEUE_PREFIX: Final = "/debug/queue/"
LIMIT: Final = 1024 * 1024
"""Bytes of a body."""

NOT_HERE: Final = "path not found"
NO_USER: Final = "user information not found in request context"
UNKNOWN_TOKEN: Final = "Unauthorized"
FORBIDDEN_PATH: Final = 'forbidden: User "{user}" cannot {verb} path "{path}"'
FORBIDDEN: Final = "user does not have permission to {verb} placements in namespace {namespace}: {reason}"
NOT_ALLOWED: Final = "method {method} not allowed"
INCOMPLETE: Final = "invalid debug path: namespace and name required"
MALFORMED: Final = 'unexpected key format: "{key}"'
NOT_FOUND: Final = "placement '{name}' not found"
NOT_JSON: Final = "failed to unmarshal placement JSON: {why}"
TOO_LARGE: Final = f"request body too large: more than {LIMIT} bytes"
TOO_SLOW: Final = f"the body did not arrive within {BODY_SECONDS:.0f} seconds"
UNCHECKED: Final = "failed to check permissions: {why}"
NO_REVIEW: Final = "the hub could not authenticate the request"
TOO_DEEP: Final = "nested too deeply"
NO_OBJECT: Final = "not an object"
OTHER_KIND: Final = "kind is {kind}, not Placement"
OUT_OF_RANGE: Final = "{where} does not fit into {bits} bits"
TOO_MANY: Final = "too many requests, please try again later"
NOT_READY: Final = "not ready: {reasons}"
FAILED: Final = "the placement could not be evaluated; see the log of fairway"

BURST: Final = 20
EVERY: Final = 0.2
"""Seconds between requests of one user, once the burst is used up, because each may evaluate the whole fleet."""
USERS: Final = 1024

_VERBS: Final = {"GET": "get", "POST": "create"}


class PlacementPathError(Exception):
    """A path that names no placement, or one that does not exist."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Refused(Exception):
    def __init__(self, code: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code, self.message, self.headers = code, message, headers


def queue_answer(inspector: Inspector, raw_path: str) -> dict[str, Any]:
    """Return the queue state of the placement that the path names. Raises PlacementPathError."""
    raw = raw_path.partition("?")[0]
    if not raw.startswith(QUEUE_PREFIX):
        raise PlacementPathError(404, NOT_HERE)
    try:
        namespace, name = _split(raw[len(QUEUE_PREFIX) :])
    except _Refused as refused:
        raise PlacementPathError(refused.code, refused.message) from None
    explanation = inspector.describe_queue(namespace, name)
    if explanation is None:
        raise PlacementPathError(404, NOT_FOUND.format(name=name))
    return explanation


class DebugEndpoint:
    def __init__(
        self,
        access: Authorizer,
        inspector: Inspector,
        *,
        ready: Callable[[], Sequence[str]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._access, self._inspector, self._ready, self._clock = access, inspector, ready, clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    async def handle(self, request: web.BaseRequest) -> web.Response:
        try:
            return _written(await self._found(request), content_type=TEXT)
        except _Refused as refused:
            response = _written({"error": refused.message}, code=refused.code)
            response.headers.update(refused.headers)
            return response

    async def _found(self, request: web.BaseRequest) -> dict[str, Any]:
        raw = request.raw_path.partition("?")[0]
        about_queue = raw.startswith(QUEUE_PREFIX)
        if raw != PREFIX[:-1] and not raw.startswith(PREFIX) and not about_queue:
            raise _Refused(404, NOT_HERE)
        # Authentication before anything else: without access, a client learns neither which methods nor which
        # placements exist.
        user = await self._authenticated(request)
        await self._may_use(user, request.method, unquote(raw))
        trust(request)
        verb = _VERBS.get(request.method)
        if verb is None or (about_queue and verb != "get"):
            allowed = "GET" if about_queue else ", ".join(_VERBS)
            raise _Refused(405, NOT_ALLOWED.format(method=request.method), Allow=allowed)
        # By user, after authentication: a client cannot use up the limit of another one.
        self._check_rate_limit(user)
        if reasons := self._ready():
            raise _Refused(503, NOT_READY.format(reasons=", ".join(reasons)), **{"Retry-After": "5"})
        if about_queue:
            return await self._queue_state(user, raw)
        key = raw[len(PREFIX) :]
        placement = self._existing(key) if verb == "get" else await _placement_in_body(request, key)
        # The namespace of the placement itself, which for a POST is in the body.
        await self._may_see(user, verb, placement.metadata.namespace)
        try:
            return document(placement, await self._inspector.inspect(placement))
        except Exception:
            self._failed(request)

    async def _queue_state(self, user: User, raw: str) -> dict[str, Any]:
        namespace, _ = _split(raw[len(QUEUE_PREFIX) :])
        await self._may_see(user, "get", namespace)
        try:
            return queue_answer(self._inspector, raw)
        except PlacementPathError as error:
            raise _Refused(error.code, str(error)) from None

    def _failed(self, request: web.BaseRequest) -> NoReturn:
        log.exception("%s of %s failed", request.method, request.raw_path)
        raise _Refused(500, FAILED) from None

    # Authentication and authorization

    async def _authenticated(self, request: web.BaseRequest) -> User:
        token = bearer_token(request.headers.getall("Authorization", []))
        if not token:
            raise _Refused(401, NO_USER, **{"WWW-Authenticate": "Bearer"})
        try:
            user = await self._access.user(token, peer=peer_address(request))
        except TooManyReviews:
            raise _Refused(429, TOO_MANY, **{"Retry-After": "1"}) from None
        except KubeError as error:
            log.warning("cannot authenticate a request to the debug endpoint: %s", error)
            # The error describes our setup, and the client is not authenticated.
            raise _Refused(500, UNCHECKED.format(why=NO_REVIEW)) from None
        if user is None:
            raise _Refused(401, UNKNOWN_TOKEN, **{"WWW-Authenticate": 'Bearer error="invalid_token"'})
        return user

    async def _may_use(self, user: User, method: str, path: str) -> None:
        verb = method.lower()
        try:
            verdict = await self._access.path(user, verb=verb, path=path)
        except KubeError as error:
            raise _Refused(500, UNCHECKED.format(why=error)) from None
        if not verdict.allowed:
            raise _Refused(403, FORBIDDEN_PATH.format(user=user.name, verb=verb, path=path))

    async def _may_see(self, user: User, verb: str, namespace: str) -> None:
        try:
            verdict = await self._access.placements(user, verb=verb, namespace=namespace)
        except KubeError as error:
            raise _Refused(500, UNCHECKED.format(why=error)) from None
        if not verdict.allowed:
            raise _Refused(403, FORBIDDEN.format(verb=verb, namespace=namespace, reason=verdict.reason))

    def _check_rate_limit(self, user: User) -> None:
        bucket = self._buckets.pop(user.name, None) or TokenBucket(burst=BURST, every=EVERY)
        self._buckets[user.name] = bucket
        if len(self._buckets) > USERS:
            self._buckets.popitem(last=False)
        if not bucket.take(self._clock.monotonic()):
            raise _Refused(429, TOO_MANY, **{"Retry-After": "1"})

    # The placement

    def _existing(self, key: str) -> Placement:
        namespace, name = _split(key)
        try:
            placement = self._inspector.find(namespace, name)
        except Exception:
            log.exception("cannot evaluate placement %s/%s", namespace, name)
            raise _Refused(500, FAILED) from None
        if placement is None:
            raise _Refused(404, NOT_FOUND.format(name=name))
        return placement


def _split(key: str) -> tuple[str, str]:
    """Split the path before unquoting: an encoded slash would be part of a name, and no name contains one."""
    parts = [unquote(part) for part in key.split("/")]
    if len(parts) > 2 or any(part in (".", "..") or "/" in part or "\0" in part for part in parts):
        raise _Refused(400, MALFORMED.format(key=unquote(key)))
    if len(parts) < 2 or not all(parts):
        raise _Refused(400, INCOMPLETE)
    return parts[0], parts[1]


async def _placement_in_body(request: web.BaseRequest, key: str) -> Placement:
    if key:
        raise _Refused(400, MALFORMED.format(key=unquote(key)))
    body = await _body(request)
    try:
        content = msgspec.json.decode(body)
        if not isinstance(content, dict):
            raise _Refused(400, NOT_JSON.format(why=NO_OBJECT))
        # Both may be omitted, as in OCM.
        kind = content.get("kind") or "Placement"
        version = content.get("apiVersion") or Placement().apiVersion
        placement = decode({**content, "kind": kind, "apiVersion": version})
    except RecursionError:
        raise _Refused(400, NOT_JSON.format(why=TOO_DEEP)) from None
    except (msgspec.DecodeError, DecodeError) as error:
        raise _Refused(400, NOT_JSON.format(why=error)) from None
    if not isinstance(placement, Placement):
        raise _Refused(400, NOT_JSON.format(why=OTHER_KIND.format(kind=placement.kind)))
    for where, number, bits in _numbers(placement.spec):
        if number is not None and not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise _Refused(400, NOT_JSON.format(why=OUT_OF_RANGE.format(where=where, bits=bits)))
    return placement


def _numbers(spec: PlacementSpec) -> Iterator[tuple[str, int | None, int]]:
    """Check what a hub would have validated, which decoding does not and the engine relies on."""
    yield "spec.numberOfClusters", spec.numberOfClusters, 32
    policy = spec.prioritizerPolicy
    for at, configuration in enumerate(policy.configurations if policy else ()):
        yield f"spec.prioritizerPolicy.configurations[{at}].weight", configuration.weight, 32
    for at, constraint in enumerate(spec.spreadPolicy.spreadConstraints):
        yield f"spec.spreadPolicy.spreadConstraints[{at}].maxSkew", constraint.maxSkew, 32
    for at, toleration in enumerate(spec.tolerations):
        yield f"spec.tolerations[{at}].tolerationSeconds", toleration.tolerationSeconds, 64
    size = spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup
    if isinstance(size, int):
        yield "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup", size, 32


async def _body(request: web.BaseRequest) -> bytes:
    try:
        return await read_body(request, limit=LIMIT)
    except BodyTooLarge:
        raise _Refused(400, TOO_LARGE) from None
    except TimeoutError:
        raise _Refused(408, TOO_SLOW) from None


def _written(
    content: dict[str, Any], *, code: int = 200, content_type: str = "application/json"
) -> web.Response:
    body = msgspec.json.encode(content) + b"\n"
    return web.Response(status=code, body=body, headers={"Content-Type": content_type})
