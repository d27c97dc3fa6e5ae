"""An informer in its own process converges to the hub's state and never goes back, whatever happens to the hub."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from chaos.callbacks import Batch, Change, Copy, Key, Seen
from chaos.control import Message, Program, control_server
from chaos.servers import ONCE, EmbeddedServer, RealServer, Server, client_of, embedded_server
from chaos.token_objects import CONFIG_MAPS, body
from forked import PATIENCE, POLL, Child
from kubehub.authn import jwt, service_account_tokens
from kubehub.storage import archive
from kubewire.client.errors import AlreadyExists, NotFound, Unauthorized
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client

NAMES = ("one", "two", "three", "four", "five", "six")
ACCOUNT = "follower"
HUBS_OWN = "kube-root-ca.crt"
"""Comes into every namespace, sooner or later."""


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with embedded_server(folder=tmp_path) as server:
        yield server


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def server(request: pytest.FixtureRequest) -> Server:
    if request.param == "real":
        return RealServer(request.getfixturevalue("real_hub"))
    made: EmbeddedServer = request.getfixturevalue("embedded")
    return made


class FollowerHarness:
    """One namespace, a writer, and a follower."""

    def __init__(self, client: Client, program: Program, namespace: str, chance: random.Random) -> None:
        self.client, self.program, self.namespace = client, program, namespace
        self.chance = chance
        self.copy = Copy()
        self._taken = 0
        self._numbers = iter(range(1_000_000))

    async def stir(self, count: int) -> None:
        """Make this number of changes."""
        for _ in range(count):
            name, token = self.chance.choice(NAMES), f"t{next(self._numbers)}"
            document = body(CONFIG_MAPS, name, token)
            try:
                match self.chance.choice(("create", "patch", "delete")):
                    case "create":
                        await self.client.create(CONFIG_MAPS, document, namespace=self.namespace)
                    case "patch":
                        await self.client.patch(
                            CONFIG_MAPS, name, document, kind=Patch.MERGE, namespace=self.namespace
                        )
                    case _:
                        await self.client.delete(CONFIG_MAPS, name, namespace=self.namespace)
            except (AlreadyExists, NotFound):
                pass

    async def mark(self) -> None:
        """Make a change that the follower must report."""
        document = {"metadata": {"name": "mark", "labels": {"mark": f"m{next(self._numbers)}"}}}
        await self.client.patch(
            CONFIG_MAPS, "mark", document, kind=Patch.APPLY, namespace=self.namespace, force=True
        )

    async def converged(self) -> None:
        """Check that the follower has exactly the hub's objects, once all writes are done."""
        listing = await self.client.list(CONFIG_MAPS, namespace=self.namespace)
        hub: dict[Key, Seen] = {
            (item.metadata.namespace, item.metadata.name): Seen(
                item.metadata.uid, int(item.metadata.resourceVersion)
            )
            for item in listing.items
            if item.metadata.name != HUBS_OWN
        }

        def holds(line: Message) -> bool:
            self._take(line)
            return not self.copy.differences(hub)

        if self.copy.differences(hub):
            try:
                await self.program.wait_for(holds, after=self._taken)
            except TimeoutError:
                raise AssertionError(
                    f"{self.copy.differences(hub)}; last said: {self.program.messages[-5:]}"
                ) from None
        assert self.copy.problems == []

    def _take(self, line: Message) -> None:
        self._taken += 1
        if "changes" not in line:
            return
        changes = [
            Change(type=type_, key=(namespace, name), object=Seen(uid, int(version)))
            for type_, namespace, name, uid, version in line["changes"]
            if name != HUBS_OWN
        ]
        self.copy.take(Batch(epoch=line["epoch"], listed=line["listed"], changes=changes))


@asynccontextmanager
async def harness(
    server: Server,
    folder: Path,
    chance: random.Random,
    *,
    kubeconfig: Path | None = None,
    namespace: str = "",
) -> AsyncIterator[FollowerHarness]:
    async with control_server() as control, client_of(server) as client:
        if not namespace:
            namespace = await made_namespace(client)
        child = Child(
            "chaos.follower",
            str(kubeconfig or server.kubeconfig),
            str(control.path),
            namespace,
            "follower",
            log=folder / "follower.log",
        )
        try:
            yield FollowerHarness(client, await control.program("follower"), namespace, chance)
        finally:
            child.kill()


async def made_namespace(client: Client) -> str:
    name = f"chaos-{uuid4().hex[:8]}"
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    return name


async def test_informers_survive_hub_crashes(
    server: Server, tmp_path: Path, chance: random.Random, length: int
) -> None:
    kills = 5 if isinstance(server, EmbeddedServer) else 2
    async with harness(server, tmp_path, chance) as at:
        await at.stir(20)
        await at.converged()
        for _ in range(kills * length):
            await at.stir(chance.randrange(40))
            await server.crash()
            await server.start()
            await at.stir(chance.randrange(10))
            await at.mark()
            if chance.random() < 0.7:
                await at.converged()
        await at.stir(20)
        await at.mark()
        await at.converged()
        assert at.copy.epoch == 0


async def test_restored_backup_starts_a_new_epoch(
    embedded: EmbeddedServer, tmp_path: Path, chance: random.Random
) -> None:
    backup = tmp_path / "hub.backup"
    async with harness(embedded, tmp_path, chance) as at:
        await at.stir(30)
        await at.mark()
        await at.converged()
        archive.backup(embedded.data, backup)
        await at.stir(60)
        await at.mark()
        await at.converged()
        newest = int(await at.client.newest(CONFIG_MAPS))
        for epoch in (1, 2):
            await embedded.crash()
            archive.restore(backup, embedded.data, force=True)
            await embedded.start()
            if epoch == 2:
                await at.stir(20)  # before the follower had time to see what became of the hub
            await at.converged()
            assert at.copy.epoch == epoch
            await at.stir(30)
            await at.mark()
            await at.converged()
            assert at.copy.epoch == epoch
            assert int(await at.client.newest(CONFIG_MAPS)) > newest


def signing_key(server: Server) -> tuple[jwt.Key, int]:
    """Return the hub's key, and the seconds for which an expired token is still accepted."""
    if isinstance(server, EmbeddedServer):
        return jwt.Key.open(server.data / "pki"), 0
    assert isinstance(server, RealServer)
    private = serialization.load_pem_private_key(server.hub.service_account_key.read_bytes(), password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    return jwt.Key(private), 60


def token_of(server: Server, account: dict[str, Any], *, seconds: float) -> str:
    """Create a token that the hub accepts for about this time."""
    meta, now = account["metadata"], int(time.time())
    key, leeway = signing_key(server)
    claims = jwt.Claims(
        aud=[service_account_tokens.ISSUER],
        exp=int(now + seconds - leeway),
        iat=now - 600,
        nbf=now - 600,
        iss=service_account_tokens.ISSUER,
        bound=jwt.Bound(
            namespace=meta["namespace"], serviceaccount=jwt.Reference(name=meta["name"], uid=meta["uid"])
        ),
        sub=f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
    )
    return key.sign(claims)


async def account_in(client: Client, namespace: str) -> dict[str, Any]:
    """Create a service account that may read the followed objects."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    made = await client.request("POST", path, body={"metadata": {"name": ACCOUNT}})
    group = "rbac.authorization.k8s.io"
    role = {
        "metadata": {"name": ACCOUNT},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
    }
    binding = {
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    for plural, document in (("roles", role), ("rolebindings", binding)):
        await client.request("POST", f"/apis/{group}/v1/namespaces/{namespace}/{plural}", body=document)
    account: dict[str, Any] = json.loads(made.body)
    return account


def kubeconfig_with(token: Path, server: Server, file: Path) -> Path:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(token)}
    authority = config["clusters"][0]["cluster"].get("certificate-authority")
    if authority:
        config["clusters"][0]["cluster"]["certificate-authority"] = str(server.kubeconfig.parent / authority)
    file.write_text(yaml.safe_dump(config))
    return file


async def expired(kubeconfig: Path, namespace: str) -> None:
    """Wait until the hub rejects the token."""
    async with Client.from_kubeconfig(kubeconfig, retry=ONCE) as client, asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.list(CONFIG_MAPS, namespace=namespace)
            except Unauthorized:
                return
            await asyncio.sleep(POLL)


async def test_expired_token_is_replaced(server: Server, tmp_path: Path, chance: random.Random) -> None:
    file = tmp_path / "token"
    async with client_of(server) as client:
        namespace = await made_namespace(client)
        account = await account_in(client, namespace)
    file.write_text(token_of(server, account, seconds=600))
    kubeconfig = kubeconfig_with(file, server, tmp_path / "follower.kubeconfig")
    async with harness(server, tmp_path, chance, kubeconfig=kubeconfig, namespace=namespace) as at:
        await at.stir(20)
        await at.mark()
        await at.converged()
        file.write_text(token_of(server, account, seconds=2))
        await at.stir(10)
        await expired(kubeconfig, namespace)
        await server.crash()
        await server.start()
        await at.stir(20)
        await at.mark()
        refused = await at.program.wait_for(lambda line: "401" in line.get("log", ""))
        assert "Unauthorized" in refused["log"]
        file.write_text(token_of(server, account, seconds=600))
        await at.converged()
        assert at.copy.epoch == 0
