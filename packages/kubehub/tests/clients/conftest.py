"""Every test here runs twice: against the embedded hub, and against a real kube-apiserver with its controllers."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import boat_crd
from clients.talk import Talk, context, established

from fairway.testing.hub import hub_in_thread
from rigs.kubernetes import CONTROLLERS, KUBECTL, Tools, background, real_hub


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A hub under test. ``kind`` is only for naming; no assertion may depend on it."""

    kind: str
    url: str
    kubeconfig: Path
    """The administrator's."""
    authority: Path


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    folder = tmp_path_factory.mktemp(f"suite-{request.param}")
    if request.param == "embedded":
        with hub_in_thread(folder=folder, definitions=()) as embedded:
            yield Suite(
                kind="embedded",
                url=embedded.url,
                kubeconfig=embedded.kubeconfig,
                authority=embedded.authority,
            )
        return
    tools = request.getfixturevalue("kube_tools")
    with background(real_hub(tools, folder=folder, controllers=CONTROLLERS)) as real:
        yield Suite(kind="real", url=real.url, kubeconfig=real.kubeconfig, authority=real.ca_file)


@pytest.fixture(scope="session")
def kubectl(kube_tools: Tools) -> Path:
    """The program itself, of the release the real hub is of; what uses it belongs to the tier ``kube``."""
    return kube_tools.path(KUBECTL)


@pytest.fixture
def namespace() -> str:
    """An unused name of a namespace, which the test creates."""
    return f"suite-{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def talk(hub: Suite) -> AsyncIterator[Talk]:
    """As the administrator, in plain HTTP."""
    url, tls, token = context(hub.kubeconfig)
    async with Talk(url=url, context=tls, token=token) as made:
        yield made


@pytest.fixture
async def room(talk: Talk, namespace: str) -> str:
    """A namespace for this test, which exists."""
    code, answer = await talk.call("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    assert code == 201, answer
    return namespace


@pytest.fixture(scope="session")
def api(hub: Suite) -> Iterator[Any]:
    """The official client, as the administrator."""
    from clients.official import config  # it takes its time

    with config.new_client_from_config(config_file=str(hub.kubeconfig)) as made:
        yield made


@pytest.fixture(scope="session")
def boats(hub: Suite) -> None:
    """The hub serves boats."""

    async def define() -> None:
        url, tls, token = context(hub.kubeconfig)
        async with Talk(url=url, context=tls, token=token) as talk:
            code, answer = await talk.call(
                "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=boat_crd.DEFINITION
            )
            assert code == 201, answer
            await established(talk, boat_crd.DEFINITION_NAME)
            # Lists that may be old come from a cache, which takes its time to fill.
            while (await talk.call("GET", f"/apis/{boat_crd.API_VERSION}/boats?resourceVersion=1"))[0] != 200:
                await asyncio.sleep(0.05)

    asyncio.run(define())
