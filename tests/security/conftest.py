"""Attacks on a hub over the network. Tests of rules that both hubs share also run against a real kube-apiserver."""

import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from kubehub.serving import traffic
from rigs.kubernetes import CONTROLLERS, background, real_hub
from security.hubs import started
from security.wire import USERS, Hub, ask

ANONYMOUS = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions: [{path: /healthz}, {path: /livez}, {path: /readyz}, {path: /version}, {path: /version/}]
"""
"""Limits anonymous users on a real hub to the paths that the embedded hub allows."""


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """An embedded hub without a time limit for request bodies, which a slow machine could exceed."""
    with pytest.MonkeyPatch.context() as patch, started(tmp_path_factory.mktemp("security")) as hub:
        patch.setattr(traffic, "BODY_SECONDS", 3600.0)
        yield hub


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    if request.param == "embedded":
        yield request.getfixturevalue("embedded")
        return
    folder = tmp_path_factory.mktemp("security-real")
    anonymous = folder / "authentication.yaml"
    anonymous.write_text(ANONYMOUS)
    tools = request.getfixturevalue("kube_tools")
    arguments = [f"--authentication-config={anonymous}"]
    manager = real_hub(tools, folder=folder, controllers=CONTROLLERS, users=USERS, extra_args=arguments)
    with background(manager) as real:
        address = urlsplit(real.url)
        assert address.hostname
        assert address.port
        yield Hub(
            kind="real",
            host=address.hostname,
            port=address.port,
            authority=real.ca_file,
            tokens=real.tokens,
            folder=folder,
            account_key=real.service_account_key,
        )


@pytest.fixture
async def namespace(hub: Hub) -> str:
    """A new namespace on the hub."""
    return await create_namespace(hub)


@pytest.fixture
async def embedded_ns(embedded: Hub) -> str:
    """A new namespace on the embedded hub."""
    return await create_namespace(embedded)


async def create_namespace(hub: Hub) -> str:
    name = f"ns-{uuid.uuid4().hex[:8]}"
    answer = await ask(hub, "POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    assert answer.code == 201, answer
    return name
