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
from controllers.serving.asking import LOOPBACK, ask, connect, parsed, request, unverified
from fairway.controllers.machines import agent_access, permit_server
from fairway.controllers.machines.permit_server import PermitServer, serving_permits
from fairway.controllers.serving import Address, CertificateFiles, http_server
from fairway.testing.hub import HubAddress, hub_in_thread
from fairway.workloads.machines import permit_protocol as protocol
from fairway.workloads.machines.permit_protocol import Permit, PermitError, PermitRequest
from kubehub.authn.jwt import Key
from kubehub.authn.service_account_tokens import ISSUER
from kubehub.hub import PKI
from kubewire.client import Client, load
from rigs.certificates import Authority
from security.wire import read_to_end

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
    async with served(hub) as rig:
        bearer = await token(rig.client, node="n2")
        for path in ("/permit", "/", "/permit?timeout=5s"):
            answer = await rig.post(permit_request("vm", 3), bearer=bearer, path=path)
            assert (answer.code, answer.document) == (200, {"permit": {"vCPUs": 3, "mem": 3 << 30}})
        assert [node for _, node in rig.scheduler.asked] == ["n2"] * 3


async def test_identity_without_node_is_refused_unless_it_is_a_cluster_wide_agent(hub: HubAddress) -> None:
    async with served(hub, cluster_wide=frozenset({user(CLUSTER_WIDE)})) as rig:
        refused = await rig.post(permit_request("vm", 3), bearer=await token(rig.client))
        assert (refused.code, refused.error) == (403, agent_access.NO_NODE.format(user=user(AGENT)))
        answer = await rig.post(permit_request("vm", 3), bearer=await token(rig.client, CLUSTER_WIDE))
        assert answer.code == 200
        assert [node for _, node in rig.scheduler.asked] == [""]


async def test_token_without_the_right_to_request_permits_is_refused(hub: HubAddress) -> None:
    async with served(hub) as rig:
        refused = await rig.post(permit_request("vm", 3), bearer=await token(rig.client, OUTSIDER, node="n1"))
        assert refused.code == 403
        assert refused.error == agent_access.NOT_ALLOWED.format(user=user(OUTSIDER), path="/permit")


async def test_missing_unknown_and_foreign_tokens_are_unauthorized(hub: HubAddress) -> None:
    async with served(hub) as rig:
        for body in (permit_request("vm", 3), {"pod": "nonsense"}):
            nobody = await rig.post(body)
            assert (nobody.code, nobody.error) == (401, agent_access.NO_CREDENTIALS)
            assert nobody.headers["www-authenticate"] == "Bearer"
        other = await token(rig.client, node="n1", audience="https://somewhere.else")
        for bearer in ("nonsense", other):
            answer = await rig.post(permit_request("vm", 3), bearer=bearer)
            assert (answer.code, answer.error) == (401, agent_access.UNKNOWN_TOKEN)
        assert rig.scheduler.asked == []


async def test_expired_token_is_unauthorized(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with hub_in_thread(folder=tmp_path, data=data, definitions=(), controllers=frozenset()) as hub:
        async with served(hub) as rig:
            await create_agents(rig.client, NODES)
            key = Key.open(data / PKI, expected=True)
            claims = key.verify(await token(rig.client, node="n1"), issuers=frozenset({ISSUER}))
            assert claims is not None
            assert claims.iat is not None
            valid, expired = (
                key.sign(msgspec.structs.replace(claims, exp=claims.iat + seconds)) for seconds in (3600, -1)
            )
            assert (await rig.post(permit_request("vm", 3), bearer=valid)).code == 200
            answer = await rig.post(permit_request("vm", 3), bearer=expired)
            assert (answer.code, answer.error) == (401, agent_access.UNKNOWN_TOKEN)
            assert len(rig.scheduler.asked) == 1


async def test_token_of_a_deleted_pod_is_unauthorized(hub: HubAddress) -> None:
    async with served(hub) as rig:
        spec = {"nodeName": "n1", "serviceAccountName": AGENT, "containers": [{"name": "a", "image": "a"}]}
        path = "/api/v1/namespaces/agents/pods"
        await rig.client.request("POST", path, body={"metadata": {"name": "agent-gone"}, "spec": spec})
        bearer = await token(rig.client, node="gone")
        await rig.client.request("DELETE", f"{path}/agent-gone", body={"gracePeriodSeconds": 0})
        assert (await rig.post(permit_request("vm", 3), bearer=bearer)).code == 401


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
    async with served(hub) as rig:
        answer = await rig.post(body, bearer=await token(rig.client, node="n1"))
        assert (answer.code, message in answer.error) == (status, True), answer.error
        assert rig.scheduler.asked == []


async def test_chunked_body_is_limited_as_well(hub: HubAddress) -> None:
    async with served(hub) as rig:
        chunk = b"400\r\n" + b" " * 0x400 + b"\r\n"
        headers = ("Transfer-Encoding: chunked",)
        data = request("POST", "/permit", token=await token(rig.client, node="n1"), headers=headers)
        reader, writer = await connect(rig.address, tls=unverified())
        writer.write(data + chunk + chunk)
        assert parsed(await read_to_end(reader)).code == 413
        writer.transport.abort()


async def test_other_paths_and_methods_are_refused(hub: HubAddress) -> None:
    async with served(hub) as rig:
        missing = await ask(rig.address, "POST", "/other", tls=unverified(), body={})
        assert missing.code == 404
        got = await ask(rig.address, "GET", "/permit", tls=unverified())
        assert (got.code, got.headers["allow"]) == (405, "POST")


async def test_refusal_of_the_scheduler_is_the_reply(hub: HubAddress) -> None:
    async with served(hub) as rig:
        rig.scheduler.refusal = PermitError(404, "unknown")
        answer = await rig.post(permit_request("vm", 3), bearer=await token(rig.client, node="n1"))
        assert (answer.code, answer.error) == (404, "unknown")
        assert rig.observed == [404]


async def test_client_that_disconnects_cancels_its_request(hub: HubAddress) -> None:
    async with served(hub) as rig:
        rig.scheduler.hold.clear()
        reader, writer = await connect(rig.address, tls=unverified())
        body = json.dumps(permit_request("vm", 3)).encode()
        writer.write(request("POST", "/permit", token=await token(rig.client, node="n1"), body=body))
        while not rig.scheduler.asked:
            await asyncio.sleep(0)
        writer.transport.abort()
        await rig.scheduler.cancelled.wait()
        del reader


async def test_permit_that_is_not_written_in_time_is_unavailable(
    hub: HubAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permit_server, "ANSWER_SECONDS", 0.01)
    async with served(hub) as rig:
        rig.scheduler.hold.clear()
        answer = await rig.post(permit_request("vm", 3), bearer=await token(rig.client, node="n1"))
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
    async with served(hub, client_ca=authority.pair.certificate) as rig:
        node = client_context(authority, "system:node:n1", "system:nodes")
        assert (await rig.post(permit_request("vm", 3), tls=node)).code == 200
        assert [node for _, node in rig.scheduler.asked] == ["n1"]
        for name, group in (
            ("system:node:n1", "others"),
            ("admin", "system:nodes"),
            ("system:node:", "system:nodes"),
        ):
            other = client_context(authority, name, group)
            assert (await rig.post(permit_request("vm", 3), tls=other)).code == 403
        bearer = await token(rig.client, node="n2")
        assert (await rig.post(permit_request("vm", 3), bearer=bearer)).code == 200


async def test_client_certificate_of_an_intermediate_authority_is_accepted(
    hub: HubAddress, tmp_path: Path
) -> None:
    """As by kube-apiserver's --client-ca-file, which needs no root certificate."""
    (folder := tmp_path / "intermediate").mkdir()
    intermediate = authority_in(tmp_path / "root").intermediate(folder)
    async with served(hub, client_ca=intermediate.pair.certificate) as rig:
        node = client_context(intermediate, "system:node:n1", "system:nodes")
        assert (await rig.post(permit_request("vm", 3), tls=node)).code == 200
        assert [node for _, node in rig.scheduler.asked] == ["n1"]


async def test_client_certificate_of_another_authority_ends_the_connection(
    hub: HubAddress, tmp_path: Path
) -> None:
    async with served(hub, client_ca=authority_in(tmp_path / "ours").pair.certificate) as rig:
        stranger = client_context(authority_in(tmp_path / "theirs"), "system:node:n1", "system:nodes")
        try:
            reader, writer = await connect(rig.address, tls=stranger)
            writer.write(request("POST", "/permit", body=permit_request("vm", 3)))
            assert await read_to_end(reader) == b""
            writer.transport.abort()
        except (ssl.SSLError, ConnectionError):
            pass
        assert rig.scheduler.asked == []


async def test_renewed_files_are_used_for_the_next_connection(hub: HubAddress, tmp_path: Path) -> None:
    first, second = authority_in(tmp_path / "first"), authority_in(tmp_path / "second")
    served_by = first.issue("server", hosts=("localhost",))
    files = CertificateFiles(certificate=served_by.certificate, key=served_by.key)
    async with served(hub, files=files, client_ca=first.pair.certificate) as rig:
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
        assert (await rig.post(permit_request("vm", 3), tls=node)).code == 200


# Before authentication


async def test_agents_are_served_beside_connections_that_send_nothing_or_half_a_head(hub: HubAddress) -> None:
    async with served(hub) as rig:
        bearer = await token(rig.client, node="n1")
        held = []
        for number in range(300):
            # Every second client does not even begin the TLS handshake.
            _, writer = await connect(rig.address, tls=unverified() if number % 2 else None)
            if number % 2:
                writer.write(b"POST /permit HTTP/1.1\r\nHost: x\r\nContent-Le")
            held.append(writer)
        for _ in range(10):
            assert (await rig.post(permit_request("vm", 3), bearer=bearer)).code == 200
        for writer in held:
            writer.transport.abort()


async def test_head_of_a_permit_request_has_a_deadline(
    hub: HubAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.1)
    async with served(hub) as rig:
        reader, writer = await connect(rig.address, tls=unverified())
        writer.write(b"POST /permit HTTP/1.1\r\nHost: x\r\n")
        assert await read_to_end(reader) == b""
        writer.transport.abort()


async def test_authenticated_agent_that_waits_is_not_closed_for_silent_connections(hub: HubAddress) -> None:
    async with served(hub) as rig:
        bearer = await token(rig.client, node="n1")
        rig.scheduler.hold.clear()
        waiting = asyncio.create_task(rig.post(permit_request("vm", 3), bearer=bearer))
        while not rig.scheduler.asked:
            await asyncio.sleep(0)
        held = [await connect(rig.address) for _ in range(http_server.PEER_CONNECTIONS + 20)]
        rig.scheduler.hold.set()
        assert (await waiting).code == 200
        for _, writer in held:
            writer.transport.abort()
