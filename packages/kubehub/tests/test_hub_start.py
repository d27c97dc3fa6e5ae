"""The start of a hub: keys that belong to its data, renewed certificates, a full disk."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from clients.talk import Talk

from disks import small_disk
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.testing.hub import embedded_hub
from kubehub import hub as hub_module
from kubehub.hub import Hub
from kubehub.key_replacement import replace_keys
from kubehub.pki.certificates import CertificateFault
from kubewire.client.errors import UntrustedError
from kubewire.client.kubeconfig import load
from kubewire.client.rest import Client

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"


@asynccontextmanager
async def talking(folder: Path) -> AsyncIterator[tuple[Hub, Talk]]:
    async with embedded_hub(folder=folder, definitions=()) as hub:
        context = ssl.create_default_context(cadata=hub.authority_pem)
        context.load_cert_chain(folder / "pki" / "admin.pem")
        async with Talk(url=hub.url, context=context) as talk:
            yield hub, talk


async def create(talk: Talk, name: str, **data: str) -> tuple[int, dict[str, object]]:
    return await talk.call("POST", MAPS, body={"metadata": {"name": name}, "data": data})


async def names(talk: Talk) -> set[str]:
    _, answer = await talk.call("GET", MAPS)
    return {item["metadata"]["name"] for item in answer["items"]} - {"kube-root-ca.crt"}


# Keys


def lose_folder(pki: Path) -> None:
    shutil.rmtree(pki)


def lose_token_key(pki: Path) -> None:
    (pki / "tokens.pem").unlink()


def swap_keys(pki: Path) -> None:
    """The keys of another hub, complete and valid."""
    shutil.rmtree(pki)
    shutil.copytree(pki.parent.parent / "other" / "pki", pki)


@pytest.mark.parametrize(
    ("lose", "named"), [(lose_folder, "ca.pem"), (lose_token_key, "tokens.pem"), (swap_keys, "ca.pem")]
)
async def test_hub_with_data_refuses_to_start_without_its_keys(
    tmp_path: Path, lose: Callable[[Path], None], named: str
) -> None:
    for name in ("hub", "other"):
        async with embedded_hub(folder=tmp_path / name, definitions=()):
            pass
    folder, pki = tmp_path / "hub", tmp_path / "hub" / "pki"
    shutil.copytree(pki, tmp_path / "backup")
    lose(pki)
    with pytest.raises(CertificateFault) as refused:
        async with embedded_hub(folder=folder, definitions=()):
            pass
    assert str(pki / named) in str(refused.value)
    shutil.rmtree(pki, ignore_errors=True)
    shutil.copytree(tmp_path / "backup", pki)
    async with embedded_hub(folder=folder, definitions=()):
        pass


async def test_missing_serving_and_admin_certificates_are_issued_by_the_same_authority(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path) as (hub, talk):
        await create(talk, "kept")
        authority = hub.authority_pem
    for name in ("serving.pem", "admin.pem", "ca.crt"):
        (tmp_path / "pki" / name).unlink()
    async with talking(tmp_path) as (hub, talk):
        assert (hub.authority_pem, await names(talk)) == (authority, {"kept"})


async def test_keys_replaced_on_purpose_serve_the_same_data_with_new_tokens(tmp_path: Path) -> None:
    secret = {
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token",
    }
    async with talking(tmp_path) as (hub, talk):
        await create(talk, "kept")
        while (await talk.call("GET", "/api/v1/namespaces/default/serviceaccounts/default"))[0] != 200:
            await asyncio.sleep(0)
        await talk.call("POST", SECRETS, body=secret)
        while not (before := (await talk.call("GET", f"{SECRETS}/t"))[1].get("data")):
            await asyncio.sleep(0)
        authority = hub.authority_pem
    assert replace_keys(tmp_path, everything=False) == ()
    shutil.rmtree(tmp_path / "pki")
    assert replace_keys(tmp_path, everything=False) == ("ca.pem", "tokens.pem")
    assert replace_keys(tmp_path, everything=True) == ("ca.pem", "tokens.pem")
    async with talking(tmp_path) as (hub, talk):
        assert hub.authority_pem != authority
        assert await names(talk) == {"kept"}
        while (after := (await talk.call("GET", f"{SECRETS}/t"))[1]["data"])["token"] == before["token"]:
            await asyncio.sleep(0)
        assert after["ca.crt"] != before["ca.crt"]


# Certificates that expire while the hub runs


async def test_running_hub_and_its_clients_outlive_their_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr(hub_module, "RENEWAL_SECONDS", 0.0)
    monkeypatch.setattr(hub_module, "_now", lambda: now - timedelta(days=366))
    kubeconfig = tmp_path / "kubeconfig"
    async with embedded_hub() as hub:
        hub.certificates.write_kubeconfig(kubeconfig, server=hub.url)
        async with Client(load(kubeconfig).context()) as client:
            with pytest.raises(UntrustedError, match="expired"):
                await client.list(MANAGED_CLUSTERS)
            first = hub.certificates.admin
            monkeypatch.setattr(hub_module, "_now", lambda: now)
            while hub.certificates.admin is first:
                await asyncio.sleep(0)
            hub.certificates.write_kubeconfig(kubeconfig, server=hub.url)
            assert (await client.list(MANAGED_CLUSTERS)).items == ()


# A full disk


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


async def test_hub_starts_on_a_full_disk_to_be_read_and_resumes_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "PROBE_SECONDS", 0.0)
    disk = tmp_path / "disk"
    with small_disk(disk, size="8m"):
        folder, ballast = disk / "hub", disk / "ballast"
        async with talking(folder) as (_, talk):
            assert (await create(talk, "kept"))[0] == 201
        fill(ballast)
        async with talking(folder) as (hub, talk):
            assert await names(talk) == {"kept"}
            code, refusal = await create(talk, "refused")
            assert (code, refusal["reason"]) == (503, "ServiceUnavailable")
            assert "read-only" in str(refusal["message"])
            assert (await talk.call("GET", "/readyz"))[0] == 503
            ballast.unlink()
            while hub.store.read_only is not None:
                await asyncio.sleep(0)
            assert (await create(talk, "more"))[0] == 201
        async with talking(folder) as (_, talk):
            assert await names(talk) == {"kept", "more"}
