"""Compacted resource versions: the error and how to continue."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clients import boat_crd
from clients.streams import Collection, names, version, watching
from clients.talk import Talk, context, established

from fairway.testing.hub import hub_in_thread
from rigs.kubernetes import ETCD, RealHub

CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def forgetful(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, str]]:
    """A hub with compacted history: its kubeconfig, and its etcd if it has one."""
    if request.param == "embedded":
        with hub_in_thread(
            folder=tmp_path_factory.mktemp("forgetful"), definitions=(), history=8
        ) as embedded:
            yield embedded.kubeconfig, ""
        return
    real: RealHub = request.getfixturevalue("real_hub")
    listens = "--listen-client-urls="
    (etcd,) = (part for part in real.processes[ETCD].command if part.startswith(listens))
    yield real.kubeconfig, etcd.removeprefix(listens)


@pytest.fixture
async def fleet(forgetful: tuple[Path, str], namespace: str) -> AsyncIterator[Collection]:
    """Four boats on a hub that has forgotten everything up to them."""
    kubeconfig, etcd = forgetful
    url, tls, token = context(kubeconfig)
    async with Talk(url=url, context=tls, token=token) as talk:
        await talk.call("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        await talk.call(
            "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=boat_crd.DEFINITION
        )
        await established(talk, boat_crd.DEFINITION_NAME)
        fleet = Collection(talk, boat_crd.path(namespace), boat_crd.boat(""))
        for index in range(4):
            last = await fleet.create(f"n{index}")
        if etcd:
            async with aiohttp.ClientSession() as session:
                order = {"revision": str(version(last)), "physical": True}
                async with session.post(f"{etcd}/v3/kv/compaction", json=order) as answer:
                    assert answer.status == 200, await answer.text()
        yield fleet


def altered(token: str, **parts: Any) -> str:
    """Return a continue token of another version."""
    held = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))) | parts
    return base64.urlsafe_b64encode(json.dumps(held).encode()).decode().rstrip("=")


async def test_watch_from_a_compacted_version_ends_with_410(fleet: Collection) -> None:
    async with watching(fleet.talk, fleet.path, resourceVersion="1") as stream:
        (event,) = await stream.rest()
    assert stream.status == 200
    message = event["object"].pop("message")
    assert message.removeprefix("too old resource version: 1 (").removesuffix(")").isdecimal()
    assert event == {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": "Expired",
            "code": 410,
        },
    }


async def test_list_at_a_compacted_version_returns_410(fleet: Collection) -> None:
    code, answer = await fleet.talk.call("GET", f"{fleet.path}?resourceVersion=1&resourceVersionMatch=Exact")
    assert code == 410
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "The resourceVersion for the provided list is too old.",
        "reason": "Expired",
        "code": 410,
    }


async def test_expired_continue_token_offers_an_inconsistent_continuation(fleet: Collection) -> None:
    first = await fleet.listing("limit=2")
    old = altered(first["metadata"]["continue"], rv=1)
    code, answer = await fleet.talk.call("GET", f"{fleet.path}?limit=2&continue={old}")
    token = answer["metadata"].pop("continue")
    assert code == 410
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": CONTINUE_TOO_OLD,
        "reason": "Expired",
        "code": 410,
    }
    await fleet.delete("n2")
    await fleet.create("n4")
    second = await fleet.listing(f"limit=1&continue={token}")
    assert names(second) == ["n3"]
    assert version(second) > version(first)
    await fleet.delete("n4")
    # From here on it is one moment again.
    assert await fleet.names(f"limit=1&continue={second['metadata']['continue']}") == ["n4"]
