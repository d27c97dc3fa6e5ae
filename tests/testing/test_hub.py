"""Embedded hubs for tests, in the event loop or in a thread."""

import ssl
import threading
from pathlib import Path

import pytest
from clients.talk import Talk, context

from fairway.api.placement import Placement
from fairway.api.resources import PLACEMENTS
from fairway.testing.builders import placement
from fairway.testing.hub import embedded_hub, hub_in_thread
from kubehub.hub import Hub
from kubehub.storage.entry import Locked
from kubewire.client.rest import Client

NAMESPACES = "/api/v1/namespaces"


def talk(hub: Hub, folder: Path) -> Talk:
    path = folder / "kubeconfig"
    hub.certificates.write_kubeconfig(path, server=hub.url)
    url, tls, token = context(path)
    return Talk(url=url, context=tls, token=token)


async def test_embedded_hub_runs_in_the_event_loop(tmp_path: Path) -> None:
    async with embedded_hub() as hub, talk(hub, tmp_path) as administrator:
        code, _ = await administrator.call(
            "GET", "/apis/cluster.open-cluster-management.io/v1beta1/placements"
        )
        assert code == 200


async def test_embedded_hub_serves_given_definitions(tmp_path: Path) -> None:
    async with embedded_hub(definitions=()) as hub, talk(hub, tmp_path) as administrator:
        code, groups = await administrator.call("GET", "/apis")
        assert code == 200
        assert not [group for group in groups["groups"] if "open-cluster" in group["name"]]


async def test_two_embedded_hubs_are_independent(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with (
        embedded_hub() as one_hub,
        embedded_hub() as two,
        talk(one_hub, tmp_path / "one") as first,
        talk(two, tmp_path / "two") as second,
    ):
        code, _ = await first.call("POST", NAMESPACES, body={"metadata": {"name": "mine"}})
        assert code == 201
        assert (await second.call("GET", f"{NAMESPACES}/mine"))[0] == 404


async def test_embedded_hub_accepts_static_tokens_and_a_data_folder(tmp_path: Path) -> None:
    tokens, folder = tmp_path / "tokens", tmp_path / "hub"
    tokens.write_text("let-me-in,robot,1,system:masters\n")
    for code in (201, 409):  # the second time the folder exists
        async with embedded_hub(folder=folder, tokens=tokens) as hub:
            trust = ssl.create_default_context(cadata=hub.authority_pem)
            async with Talk(url=hub.url, context=trust, token="let-me-in") as robot:
                answer = await robot.call("POST", NAMESPACES, body={"metadata": {"name": "kept"}})
                assert answer[0] == code


async def test_hub_in_thread_serves_the_event_loop(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with hub_in_thread(folder=tmp_path) as hub:
        async with Client.from_kubeconfig(hub.kubeconfig) as client:
            made = await client.create(PLACEMENTS, placement("web", namespace="default"), namespace="default")
            assert isinstance(made, Placement)
            listing = await client.list(PLACEMENTS)
        assert [item.metadata.name for item in listing.items] == ["web"]
        assert (tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0
    assert set(threading.enumerate()) <= before


def test_hub_in_thread_raises_its_start_error(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with (
        hub_in_thread(folder=tmp_path, data=tmp_path / "data"),
        pytest.raises(Locked),
        hub_in_thread(folder=tmp_path / "one", data=tmp_path / "data"),
    ):
        pass
