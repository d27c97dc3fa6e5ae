"""Who an agent is: the node that it proved to run on.

An agent proves it with a ServiceAccount token, which the hub reviews, or with the certificate of its kubelet. A token
names the node if it was issued for a pod: the hub adds the node's name to what it returns about such a token. Tokens
must have the audience of this server, and their user must be allowed to ``post`` the path ``/permit``: every pod on a
node can get a token that names the node.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from fairway.controllers.serving.access import Authorizer, TooManyReviews, User, bearer_token
from fairway.controllers.serving.http_server import peer_address
from kubewire.client import SYSTEM_CLOCK, Clock, KubeError

log: Final = logging.getLogger(__name__)

PATH: Final = "/permit"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""What the hub adds to the user of a token that is bound to a pod."""
NODE_USER: Final = "system:node:"
NODE_GROUP: Final = "system:nodes"

NO_CREDENTIALS: Final = "send a ServiceAccount token, or use the client certificate of a node"
UNKNOWN_TOKEN: Final = "the token was rejected: it is expired, or for another hub or audience"
NOT_A_NODE: Final = (
    "the client certificate is for {name}, which is not a node: its name must be {user}NAME, in group {group}"
)
NOT_ALLOWED: Final = "user {user} may not request permits: grant the verb post on the non-resource URL {path}"
NO_NODE: Final = (
    "user {user} proved no node: use a token that is bound to a pod, or list the user as a cluster-wide agent"
)
NO_REVIEW: Final = "the hub could not review the token; ask again"
TOO_MANY: Final = "too many unknown tokens; ask again"

REMEMBERED_SECONDS: Final = 10.0
REMEMBERED: Final = 1024


class AgentRefused(Exception):
    """A request whose sender is not an agent."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Agent:
    node: str
    """Empty for an agent that may ask for the pods on every node."""


class AgentAccess:
    """``cluster_wide`` are users that need not prove a node."""

    def __init__(
        self,
        authorizer: Authorizer,
        *,
        cluster_wide: frozenset[str] = frozenset(),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._authorizer, self._cluster_wide, self._clock = authorizer, cluster_wide, clock
        self._allowed: OrderedDict[str, tuple[bool, float]] = OrderedDict()

    async def identify(self, request: web.BaseRequest) -> Agent:
        """Raises AgentRefused."""
        certificate = _peer_certificate(request)
        if certificate:
            return _node_of_certificate(certificate)
        token = bearer_token(request.headers.getall("Authorization", []))
        if not token:
            raise AgentRefused(401, NO_CREDENTIALS)
        try:
            user = await self._authorizer.user(token, peer=peer_address(request))
            if user is None:
                raise AgentRefused(401, UNKNOWN_TOKEN)
            allowed = await self._is_allowed(user)
        except TooManyReviews:
            raise AgentRefused(429, TOO_MANY) from None
        except KubeError as error:
            log.warning("cannot authenticate an agent: %s", error)
            raise AgentRefused(503, NO_REVIEW) from None
        if not allowed:
            raise AgentRefused(403, NOT_ALLOWED.format(user=user.name, path=PATH))
        nodes = user.extra.get(NODE_NAME, ())
        if len(nodes) == 1 and nodes[0]:
            return Agent(nodes[0])
        if user.name not in self._cluster_wide:
            raise AgentRefused(403, NO_NODE.format(user=user.name))
        return Agent("")

    async def _is_allowed(self, user: User) -> bool:
        now = self._clock.monotonic()
        known = self._allowed.get(user.name)
        if known is not None and now < known[1]:
            return known[0]
        decision = await self._authorizer.path(user, verb="post", path=PATH)
        self._allowed[user.name] = (decision.allowed, now + REMEMBERED_SECONDS)
        self._allowed.move_to_end(user.name)
        while len(self._allowed) > REMEMBERED:
            self._allowed.popitem(last=False)
        return decision.allowed


def _peer_certificate(request: web.BaseRequest) -> Mapping[str, Any] | None:
    """Return the client certificate, which the TLS handshake has verified."""
    transport = request.transport
    certificate: Mapping[str, Any] | None = (
        None if transport is None else transport.get_extra_info("peercert")
    )
    return certificate


def _node_of_certificate(certificate: Mapping[str, Any]) -> Agent:
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    groups = {
        value for part in certificate.get("subject", ()) for key, value in part if key == "organizationName"
    }
    name = names[0] if len(names) == 1 else ""
    node = name.removeprefix(NODE_USER)
    if not name.startswith(NODE_USER) or not node or NODE_GROUP not in groups:
        raise AgentRefused(403, NOT_A_NODE.format(name=name or "no user", user=NODE_USER, group=NODE_GROUP))
    return Agent(node)
