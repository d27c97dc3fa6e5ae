"""Attacks on a hub over the wire. What both hubs must withstand alike runs against a real kube-apiserver, too."""

import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from fairway.hub.serving import traffic
from rigs.kubernetes import CONTROLLERS, background, real_hub
from security.hubs import started
from security.wire import USERS, Place, ask

ANONYMOUS = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions: [{path: /healthz}, {path: /livez}, {path: /readyz}, {path: /version}, {path: /version/}]
"""
"""Makes a real hub as closed to strangers as the embedded one."""


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """It gives bodies all the time a slow machine takes over them; what it does to slow clients is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch, started(tmp_path_factory.mktemp("security")) as place:
        patch.setattr(traffic, "BODY_SECONDS", 3600.0)
        yield place


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
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
        yield Place(
            kind="real",
            host=address.hostname,
            port=address.port,
            authority=real.ca_file,
            tokens=real.tokens,
            folder=folder,
            account_key=real.service_account_key,
        )


@pytest.fixture
async def room(hub: Place) -> str:
    """A namespace of the test's own."""
    return await made_room(hub)


@pytest.fixture
async def cell(embedded: Place) -> str:
    """The same on the embedded hub, for what only that is asked."""
    return await made_room(embedded)


async def made_room(place: Place) -> str:
    name = f"room-{uuid.uuid4().hex[:8]}"
    answer = await ask(place, "POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    assert answer.code == 201, answer
    return name
