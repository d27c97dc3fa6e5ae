"""Every test here runs twice: against the embedded hub, and against a real kube-apiserver with its controllers."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairway.testing.hub import hub_in_thread
from fairway.testing.kubernetes import CONTROLLERS, KUBECTL, Tools, background, real_hub


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
        yield Suite(
            kind="real",
            url=real.url,
            kubeconfig=real.kubeconfig,
            authority=real.ca_file,
        )


@pytest.fixture(scope="session")
def kubectl(kube_tools: Tools) -> Path:
    """The program itself, of the release the real hub is of; what uses it belongs to the tier ``kube``."""
    return kube_tools.path(KUBECTL)


@pytest.fixture
def namespace() -> str:
    """A name nobody else uses; the test creates it."""
    return f"suite-{uuid.uuid4().hex[:8]}"
