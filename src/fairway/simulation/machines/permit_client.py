"""Send the requests of synthetic agents to a permit server, over TLS and with a token, as real agents do."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import msgspec

from fairway.controllers.machines.agent_access import PATH
from fairway.controllers.machines.permit_server import DEFAULT_AUDIENCE
from fairway.controllers.serving.address import Address
from fairway.simulation.machines.agents import encode_permit_request
from fairway.workloads.machines.permit_protocol import (
    UNAVAILABLE,
    Permit,
    PermitError,
    PermitRequest,
    decode_reply,
)
from kubewire.client import AlreadyExists, Client, KubeError

log: Final = logging.getLogger(__name__)

ACCOUNT: Final = "fairway-agents"
"""Name of the ServiceAccount, and of the role that lets it request permits."""
RBAC: Final = "rbac.authorization.k8s.io"
TOKEN_SECONDS: Final = 3600
RENEW_SECONDS: Final = 1800.0
TIMEOUT_SECONDS: Final = 10.0
UNAUTHORIZED: Final = 401
UNREACHABLE: Final = "permit server {address} is unreachable: {reason}"


class _Token(msgspec.Struct, frozen=True):
    token: str = ""


class _TokenRequest(msgspec.Struct, frozen=True):
    status: _Token = _Token()


class _Refusal(msgspec.Struct, frozen=True):
    error: str = ""


def agent_user(namespace: str) -> str:
    """Return the user of the agents."""
    return f"system:serviceaccount:{namespace}:{ACCOUNT}"


async def create_account(client: Client, namespace: str) -> None:
    """Create the ServiceAccount of the agents, and let it request permits."""
    metadata = {"name": ACCOUNT}
    binding = {
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    role = {"metadata": metadata, "rules": [{"nonResourceURLs": [PATH], "verbs": ["post"]}]}
    for path, body in (
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": metadata}),
        (f"/apis/{RBAC}/v1/clusterroles", role),
        (f"/apis/{RBAC}/v1/clusterrolebindings", binding),
    ):
        try:
            await client.request("POST", path, body=body)
        except AlreadyExists:
            continue


class PermitClient:
    """The server's certificate is trusted as it is found: agent and server are one process."""

    def __init__(
        self, client: Client, session: aiohttp.ClientSession, address: Address, namespace: str
    ) -> None:
        self._client, self._session, self._address, self._namespace = client, session, address, namespace
        self._token, self._renew_at = "", 0.0
        self._tls: ssl.SSLContext | None = None

    async def ask(self, request: PermitRequest) -> Permit:
        """Raises PermitError."""
        address = f"{self._address.host}:{self._address.port}"
        try:
            async with self._session.post(
                f"https://{address}{PATH}",
                json=encode_permit_request(request),
                headers={"Authorization": f"Bearer {await self._current_token()}"},
                ssl=await self._trusted(),
            ) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, KubeError) as error:
            self._tls = None
            raise PermitError(UNAVAILABLE, UNREACHABLE.format(address=address, reason=error)) from None
        if response.status == UNAUTHORIZED:
            self._renew_at = 0.0
        if response.status != 200:
            raise PermitError(response.status, _reason(body))
        return decode_reply(body)

    async def _current_token(self) -> str:
        now = asyncio.get_running_loop().time()
        if now >= self._renew_at:
            path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{ACCOUNT}/token"
            spec = {"audiences": [DEFAULT_AUDIENCE], "expirationSeconds": TOKEN_SECONDS}
            response = await self._client.request("POST", path, body={"spec": spec})
            self._token = msgspec.json.decode(response.body, type=_TokenRequest).status.token
            self._renew_at = now + RENEW_SECONDS
        return self._token

    async def _trusted(self) -> ssl.SSLContext:
        if self._tls is None:
            place = (self._address.host, self._address.port)
            certificate = await asyncio.to_thread(ssl.get_server_certificate, place, timeout=TIMEOUT_SECONDS)
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._tls.load_verify_locations(cadata=certificate)
        return self._tls


def _reason(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error
    except msgspec.MsgspecError:
        return body.decode(errors="replace")


@asynccontextmanager
async def permit_client(client: Client, address: Address, *, namespace: str) -> AsyncIterator[PermitClient]:
    await create_account(client, namespace)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield PermitClient(client, session, address, namespace)
