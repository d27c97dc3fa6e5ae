"""The servers of the agents' protocol: one JSON request, one JSON reply.

``serving_permits`` is the HTTPS server. ``serving_insecure_permits`` speaks plain HTTP, for agents without credentials.

An agent posts a request to ``/permit``, or to ``/`` as NeonVM's agents do. The reply has the permit, which is written
to the VirtualMachine by then. A refused request has a status and a message: ``{"error": "..."}``. Demand that is denied
is remembered: the permit in the annotations of the VirtualMachine grows when there is room, and the next reply has it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec
from aiohttp import web

from fairway.controllers.machines.agent_access import PATH, Agent, AgentAccess, AgentRefused
from fairway.controllers.machines.agent_addresses import AgentAddresses
from fairway.controllers.serving.access import Authorizer
from fairway.controllers.serving.address import Address
from fairway.controllers.serving.certificate import CertificateFiles, FileCertificate, SelfSignedCertificate
from fairway.controllers.serving.http_server import BODY_SECONDS, BodyTooLarge, listening, read_body, trust
from fairway.workloads.machines.permit_protocol import (
    LARGEST_BODY,
    TOO_MUCH,
    UNAVAILABLE,
    Permit,
    PermitError,
    PermitRequest,
    decode_request,
    encode_reply,
)
from kubewire.client import SYSTEM_CLOCK, Client, Clock

log: Final = logging.getLogger(__name__)

PATHS: Final = ("/", PATH)

DEFAULT_AUDIENCE: Final = "fairway.dev/permits"
ANSWER_SECONDS: Final = 5.0
"""How long a request waits until its permit is written."""
JSON: Final = "application/json"

NO_SUCH_PATH: Final = "path {path} does not exist: post requests to {known}"
NO_SUCH_METHOD: Final = "method {method} is not allowed: use POST"
BODY_TOO_LARGE: Final = f"the request has more than {LARGEST_BODY} bytes"
BODY_TOO_SLOW: Final = f"the body did not arrive within {BODY_SECONDS:.0f} seconds"
NOT_ANSWERED: Final = f"the permit was not written within {ANSWER_SECONDS:.0f} seconds; ask again"

INSECURE: Final = (
    "permits at %s over plain HTTP, without credentials: the source address alone proves an agent  agents=%s"
)

Ask = Callable[[PermitRequest, str], Awaitable[Permit]]
"""Answers a request of the agent on a node, which is empty for a cluster-wide agent. Raises PermitError."""
Observe = Callable[[int, float], None]
"""Gets the status of each reply, and the seconds that it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitServer:
    """Without ``files`` the certificate is self-signed."""

    address: Address
    client: Client
    """The client for reviews of tokens."""
    files: CertificateFiles | None = None
    client_ca: Path | None = None
    """The authority that signs the client certificates of nodes; None if agents have tokens only."""
    audiences: tuple[str, ...] = (DEFAULT_AUDIENCE,)
    cluster_wide: frozenset[str] = frozenset()
    """Users that may ask for the pods on every node."""
    hosts: tuple[str, ...] = ()
    """Names in the self-signed certificate."""
    clock: Clock = SYSTEM_CLOCK


@asynccontextmanager
async def serving_permits(
    server: PermitServer, ask: Ask, *, observe: Observe = lambda _status, _seconds: None
) -> AsyncIterator[Address]:
    """Serve while the block runs. Raises OSError and CertificateError."""
    if server.files is not None:
        context = FileCertificate(server.files, client_ca=server.client_ca).context()
    else:
        hosts = (*server.hosts, server.address.host)
        context = SelfSignedCertificate(hosts=hosts, client_ca=server.client_ca, clock=server.clock).context()
    authorizer = Authorizer(server.client, clock=server.clock, audiences=server.audiences)
    access = AgentAccess(authorizer, cluster_wide=server.cluster_wide, clock=server.clock)
    endpoint = PermitEndpoint(access, ask, observe=observe, clock=server.clock)
    async with listening(server.address, endpoint.handle, context=context) as address:
        log.info("permits at %s", address)
        yield address


@asynccontextmanager
async def serving_insecure_permits(
    address: Address,
    agents: AgentAddresses,
    ask: Ask,
    *,
    observe: Observe = lambda _status, _seconds: None,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[Address]:
    """Serve over plain HTTP while the block runs, to agents that their address identifies. Raises OSError."""
    endpoint = PermitEndpoint(agents, ask, observe=observe, clock=clock)
    async with listening(address, endpoint.handle) as actual:
        log.warning(INSECURE, actual, agents.selector)
        yield actual


class Access(Protocol):
    async def identify(self, request: web.BaseRequest) -> Agent:
        """Return who asks. Raises AgentRefused."""


class PermitEndpoint:
    def __init__(self, access: Access, ask: Ask, *, observe: Observe, clock: Clock = SYSTEM_CLOCK) -> None:
        self._access, self._ask, self._observe, self._clock = access, ask, observe, clock

    async def handle(self, request: web.BaseRequest) -> web.Response:
        began = self._clock.monotonic()
        try:
            response = web.Response(body=await self._permit(request), headers={"Content-Type": JSON})
        except (AgentRefused, PermitError) as refused:
            response = _refusal(refused.status, str(refused))
        self._observe(response.status, self._clock.monotonic() - began)
        return response

    async def _permit(self, request: web.BaseRequest) -> bytes:
        path = request.raw_path.partition("?")[0]
        if path not in PATHS:
            raise PermitError(404, NO_SUCH_PATH.format(path=path, known=" or ".join(PATHS)))
        if request.method != "POST":
            raise PermitError(405, NO_SUCH_METHOD.format(method=request.method))
        agent = await self._access.identify(request)
        trust(request)
        asked = decode_request(await _body(request))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return encode_reply(await self._ask(asked, agent.node))
        except TimeoutError:
            raise PermitError(UNAVAILABLE, NOT_ANSWERED) from None


async def _body(request: web.BaseRequest) -> bytes:
    try:
        return await read_body(request, limit=LARGEST_BODY)
    except BodyTooLarge:
        raise PermitError(TOO_MUCH, BODY_TOO_LARGE) from None
    except TimeoutError:
        raise PermitError(408, BODY_TOO_SLOW) from None


def _refusal(status: int, message: str) -> web.Response:
    headers = {"Content-Type": JSON}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif status == 405:
        headers["Allow"] = "POST"
    elif status in (429, 503):
        headers["Retry-After"] = "1"
    return web.Response(status=status, body=msgspec.json.encode({"error": message}), headers=headers)
