"""The server of permits: who may ask, what it answers to bad requests, and one reply for each request."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllers.machines.agents import (
    AGENT,
    CLUSTER_WIDE,
    OUTSIDER,
    create_agents,
    permit_request,
    token,
    user,
)
from controllers.serving.asking import LOOPBACK, ask, connect, heard, parsed, request, unverified
from fairway.controllers.machines import agent_access, permit_server
from fairway.controllers.machines.permit_server import PermitServer, serving_permits
from fairway.controllers.serving import Address, CertificateFiles
from fairway.hub.authn.jwt import Key
from fairway.hub.authn.service_account_tokens import ISSUER
from fairway.hub.hub import PKI
from fairway.kube import Client, load
from fairway.machines import permit_protocol as protocol
from fairway.machines.permit_protocol import Permit, PermitError, PermitRequest
from fairway.testing.hub import HubAddress, hub_in_thread
from rigs.certificates import Authority

NODES = ("n1", "n2")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    folder = tmp_path_factory.mktemp("permits")

    async def fill(kubeconfig: Path) -> None:
        async with Client(load(kubeconfig).context()) as client:
            for name in NODES:
                await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": name}})
            await create_agents(client, NODES)

    with hub_in_thread(folder=folder, definitions=(), controllers=frozenset()) as embedded:
        asyncio.run(fill(embedded.kubeconfig))
        yield embedded


@dataclass
class Scheduler:
    """Grants what agents ask for, and remembers it."""

    asked: list[tuple[PermitRequest, str]] = field(default_factory=list)
    refusal: PermitError | None = None
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, request: PermitRequest, node: str) -> Permit:
        self.asked.append((request, node))
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if self.refusal is not None:
            raise self.refusal
        return Permit(resources=request.resources)


@dataclass
class Served:
    address: Address
    scheduler: Scheduler
    client: Client
    observed: list[int]
    """The statuses of replies, for the metrics."""

    async def post(
        self, body: object, *, bearer: str = "", tls: ssl.SSLContext | None = None, **parts: Any
    ) -> Any:
        return await ask(
            self.address,
            "POST",
            parts.pop("path", "/permit"),
            tls=tls or unverified(),
            token=bearer,
            body=body,
            **parts,
        )


@asynccontextmanager
async def served(hub: HubAddress, **settings: Any) -> AsyncIterator[Served]:
    scheduler = Scheduler()
    scheduler.hold.set()
    async with Client(load(hub.kubeconfig).context()) as client:
        server = PermitServer(address=LOOPBACK, client=client, **settings)
        observed: list[int] = []

        def observe(status: int, _seconds: float) -> None:
            observed.append(status)

        async with serving_permits(server, scheduler.ask, observe=observe) as address:
            yield Served(address, scheduler, client, observed)


async def test_agent_gets_a_permit_for_the_node_that_its_token_is_bound_to(hub: HubAddress) -> None:
    async with served(hub) as it:
        bearer = await token(it.client, node="n2")
        for path in ("/permit", "/", "/permit?timeout=5s"):
            answer = await it.post(permit_request("vm", 3), bearer=bearer, path=path)
            assert (answer.code, answer.document) == (200, {"permit": {"vCPUs": 3, "mem": 3 << 30}})
        assert [node for _, node in it.scheduler.asked] == ["n2"] * 3


async def test_identity_without_node_is_refused_unless_it_is_a_cluster_wide_agent(hub: HubAddress) -> None:
    async with served(hub, cluster_wide=frozenset({user(CLUSTER_WIDE)})) as it:
        refused = await it.post(permit_request("vm", 3), bearer=await token(it.client))
        assert (refused.code, refused.error) == (403, agent_access.NO_NODE.format(user=user(AGENT)))
        answer = await it.post(permit_request("vm", 3), bearer=await token(it.client, CLUSTER_WIDE))
        assert answer.code == 200
        assert [node for _, node in it.scheduler.asked] == [""]


async def test_token_without_the_right_to_request_permits_is_refused(hub: HubAddress) -> None:
    async with served(hub) as it:
        refused = await it.post(permit_request("vm", 3), bearer=await token(it.client, OUTSIDER, node="n1"))
        assert refused.code == 403
        assert refused.error == agent_access.NOT_ALLOWED.format(user=user(OUTSIDER), path="/permit")


async def test_missing_unknown_and_foreign_tokens_are_unauthorized(hub: HubAddress) -> None:
    async with served(hub) as it:
        for body in (permit_request("vm", 3), {"pod": "nonsense"}):
            nobody = await it.post(body)
            assert (nobody.code, nobody.error) == (401, agent_access.NO_CREDENTIALS)
            assert nobody.headers["www-authenticate"] == "Bearer"
        other = await token(it.client, node="n1", audience="https://somewhere.else")
        for bearer in ("nonsense", other):
            answer = await it.post(permit_request("vm", 3), bearer=bearer)
            assert (answer.code, answer.error) == (401, agent_access.UNKNOWN_TOKEN)
        assert it.scheduler.asked == []


async def test_expired_token_is_unauthorized(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with hub_in_thread(folder=tmp_path, data=data, definitions=(), controllers=frozenset()) as hub:
        async with served(hub) as it:
            await create_agents(it.client, NODES)
            key = Key.open(data / PKI, expected=True)
            claims = key.verify(await token(it.client, node="n1"), issuers=frozenset({ISSUER}))
            assert claims is not None
            assert claims.iat is not None
            valid, expired = (
                key.sign(msgspec.structs.replace(claims, exp=claims.iat + seconds)) for seconds in (3600, -1)
            )
            assert (await it.post(permit_request("vm", 3), bearer=valid)).code == 200
            answer = await it.post(permit_request("vm", 3), bearer=expired)
            assert (answer.code, answer.error) == (401, agent_access.UNKNOWN_TOKEN)
            assert len(it.scheduler.asked) == 1


async def test_token_of_a_deleted_pod_is_unauthorized(hub: HubAddress) -> None:
    async with served(hub) as it:
        spec = {"nodeName": "n1", "serviceAccountName": AGENT, "containers": [{"name": "a", "image": "a"}]}
        path = "/api/v1/namespaces/agents/pods"
        await it.client.request("POST", path, body={"metadata": {"name": "agent-gone"}, "spec": spec})
        bearer = await token(it.client, node="gone")
        await it.client.request("DELETE", f"{path}/agent-gone", body={"gracePeriodSeconds": 0})
        assert (await it.post(permit_request("vm", 3), bearer=bearer)).code == 401


def bad_requests() -> list[Any]:
    good = permit_request("vm", 3)
    return [
        pytest.param(b"{", 400, "not a JSON object", id="malformed JSON"),
        pytest.param(b"[1]", 400, "not a JSON object", id="no object"),
        pytest.param(b"\xff\xfe", 400, "not a JSON object", id="not UTF-8"),
        pytest.param(b"[" * 1000, 400, "not a JSON object", id="deeply nested"),
        pytest.param({**good, "protoVersion": 6}, 400, "protoVersion v4.0 is not supported", id="old version"),
        pytest.param({**good, "protoVersion": 99}, 400, "protoVersion 99 is not supported", id="unknown version"),
        pytest.param({"protoVersion": 7}, 400, "computeUnit", id="missing fields"),
        pytest.param(permit_request("", 3), 400, protocol.NO_POD.format(field="name"), id="no pod"),
        pytest.param(
            permit_request("vm", 3, unit=0), 400, protocol.ZERO_SIZE.format(path="computeUnit.vCPUs"), id="unit zero"
        ),
        pytest.param(permit_request("vm", -3), 400, "resources.vCPUs must not be negative", id="negative size"),
        pytest.param(permit_request("vm", 10**6), 400, "resources.vCPUs must be at most 512", id="absurd size"),
        pytest.param(permit_request("vm", "9" * 300), 400, "resources.vCPUs must be at most", id="absurd text"),
        pytest.param(permit_request("vm", "much"), 400, "resources.vCPUs must be a quantity", id="no quantity"),
        pytest.param(b" " * 1025, 413, permit_server.BODY_TOO_LARGE, id="oversized"),
    ]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "message"), bad_requests())
async def test_bad_request_is_refused_and_never_reaches_the_ledger(
    hub: HubAddress, body: object, status: int, message: str
) -> None:
    async with served(hub) as it:
        answer = await it.post(body, bearer=await token(it.client, node="n1"))
        assert (answer.code, message in answer.error) == (status, True), answer.error
        assert it.scheduler.asked == []


async def test_chunked_body_is_limited_as_well(hub: HubAddress) -> None:
    async with served(hub) as it:
        chunk = b"400\r\n" + b" " * 0x400 + b"\r\n"
        headers = ("Transfer-Encoding: chunked",)
        data = request("POST", "/permit", token=await token(it.client, node="n1"), headers=headers)
        reader, writer = await connect(it.address, tls=unverified())
        writer.write(data + chunk + chunk)
        assert parsed(await heard(reader)).code == 413
        writer.transport.abort()


async def test_other_paths_and_methods_are_refused(hub: HubAddress) -> None:
    async with served(hub) as it:
        missing = await ask(it.address, "POST", "/other", tls=unverified(), body={})
        assert missing.code == 404
        got = await ask(it.address, "GET", "/permit", tls=unverified())
        assert (got.code, got.headers["allow"]) == (405, "POST")


async def test_refusal_of_the_scheduler_is_the_reply(hub: HubAddress) -> None:
    async with served(hub) as it:
        it.scheduler.refusal = PermitError(404, "unknown")
        answer = await it.post(permit_request("vm", 3), bearer=await token(it.client, node="n1"))
        assert (answer.code, answer.error) == (404, "unknown")
        assert it.observed == [404]


async def test_client_that_disconnects_cancels_its_request(hub: HubAddress) -> None:
    async with served(hub) as it:
        it.scheduler.hold.clear()
        reader, writer = await connect(it.address, tls=unverified())
        body = json.dumps(permit_request("vm", 3)).encode()
        writer.write(request("POST", "/permit", token=await token(it.client, node="n1"), body=body))
        while not it.scheduler.asked:
            await asyncio.sleep(0)
        writer.transport.abort()
        await it.scheduler.cancelled.wait()
        del reader


async def test_permit_that_is_not_written_in_time_is_unavailable(
    hub: HubAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permit_server, "ANSWER_SECONDS", 0.01)
    async with served(hub) as it:
        it.scheduler.hold.clear()
        answer = await it.post(permit_request("vm", 3), bearer=await token(it.client, node="n1"))
        assert (answer.code, answer.error) == (503, permit_server.NOT_ANSWERED)
        assert answer.headers["retry-after"] == "1"


def client_context(authority: Authority, name: str, group: str) -> ssl.SSLContext:
    pair = authority.issue(name, groups=(group,))
    context = unverified()
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def authority_in(folder: Path) -> Authority:
    folder.mkdir()
    return Authority.create(folder)


async def test_client_certificate_of_a_node_proves_the_node(hub: HubAddress, tmp_path: Path) -> None:
    authority = authority_in(tmp_path / "ours")
    async with served(hub, client_ca=authority.pair.certificate) as it:
        node = client_context(authority, "system:node:n1", "system:nodes")
        assert (await it.post(permit_request("vm", 3), tls=node)).code == 200
        assert [each for _, each in it.scheduler.asked] == ["n1"]
        for name, group in (
            ("system:node:n1", "others"),
            ("admin", "system:nodes"),
            ("system:node:", "system:nodes"),
        ):
            other = client_context(authority, name, group)
            assert (await it.post(permit_request("vm", 3), tls=other)).code == 403
        bearer = await token(it.client, node="n2")
        assert (await it.post(permit_request("vm", 3), bearer=bearer)).code == 200


async def test_client_certificate_of_another_authority_ends_the_connection(
    hub: HubAddress, tmp_path: Path
) -> None:
    async with served(hub, client_ca=authority_in(tmp_path / "ours").pair.certificate) as it:
        stranger = client_context(authority_in(tmp_path / "theirs"), "system:node:n1", "system:nodes")
        try:
            reader, writer = await connect(it.address, tls=stranger)
            writer.write(request("POST", "/permit", body=permit_request("vm", 3)))
            assert await heard(reader) == b""
            writer.transport.abort()
        except (ssl.SSLError, ConnectionError):
            pass
        assert it.scheduler.asked == []


async def test_renewed_files_are_used_for_the_next_connection(hub: HubAddress, tmp_path: Path) -> None:
    first, second = authority_in(tmp_path / "first"), authority_in(tmp_path / "second")
    served_by = first.issue("server", hosts=("localhost",))
    files = CertificateFiles(certificate=served_by.certificate, key=served_by.key)
    async with served(hub, files=files, client_ca=first.pair.certificate) as it:
        renewed = second.issue("server", hosts=("localhost",))
        for old, new in (
            (served_by.certificate, renewed.certificate),
            (served_by.key, renewed.key),
            (first.pair.certificate, second.pair.certificate),
        ):
            old.write_bytes(new.read_bytes())
        node = client_context(second, "system:node:n1", "system:nodes")
        node.verify_mode = ssl.CERT_REQUIRED
        node.load_verify_locations(cafile=second.pair.certificate)
        assert (await it.post(permit_request("vm", 3), tls=node)).code == 200
