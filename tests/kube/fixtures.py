"""The tier `kube`: fixtures with a real hub for tests of any folder.

`make test` leaves out tests marked `kube`, and `make test-kube` runs those. Fixtures of this module mark the tests that
use them. A test on both hubs marks the parameter:

    @pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
    def hub(request): ...  # request.getfixturevalue("real_hub")

A test or module marked ``embedded`` runs on the embedded hub only, except single tests marked ``both_hubs``. If the
programs are missing, CI fails, and elsewhere the tests are skipped.
"""

import asyncio
import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from controllers.hubs import HubUnderTest, hub_of
from kube.tools import build
from rigs.kube_tools import ASSETS
from rigs.kubernetes import HUB, KUBECTL, RealHub, Tools, ToolsMissing, background
from rigs.kubernetes import real_hub as start

FIXTURES = frozenset({"kube_tools", "real_hub", "real_ocm_hub"})


@pytest.fixture(scope="session")
def kube_tools() -> Tools:
    """The programs of a hub and kubectl. Other programs may be missing; a request for one then raises."""
    folder = build.built()
    if ASSETS in os.environ or folder is None:
        return Tools.find(*HUB, KUBECTL)
    return Tools(folder).require(*HUB, KUBECTL)  # those of this checkout, not what was built last elsewhere


@pytest.fixture(scope="session")
def real_hub(kube_tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHub]:
    """kube-apiserver and etcd alone, for the whole session: use your own namespace and unique names.

    Tests that need controllers or kwok start them on it, or start another hub.
    """
    with background(start(kube_tools, folder=tmp_path_factory.mktemp("real-hub"))) as hub:
        yield hub


@pytest.fixture(scope="session")
def real_ocm_hub(kube_tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    """The same with OCM's and Fairway's kinds and a controller manager, for all folders that clean up their objects.

    Every API server that runs takes processor time from the tests, so folders share one as far as they can.
    """
    folder = tmp_path_factory.mktemp("real-ocm-hub")
    with hub_of("real", folder=folder, tools=lambda: kube_tools) as made:
        yield made


def pytest_configure() -> None:
    # looptime asks for the loop of every test. Where none was ever set, asyncio would create one, and leave it open.
    asyncio.set_event_loop(None)


@pytest.hookimpl(tryfirst=True)  # before -m decides
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if not (_is_embedded_only(item) and _is_on_real_hub(item))]
    for item in items:
        if isinstance(item, pytest.Function) and FIXTURES.intersection(item.fixturenames):
            item.add_marker(pytest.mark.kube)


def _is_embedded_only(item: pytest.Item) -> bool:
    names = (mark.name for mark in item.iter_markers() if mark.name in ("embedded", "both_hubs"))
    return next(names, "") == "embedded"


def _is_on_real_hub(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "real" in callspec.params.values()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    yield from skipping()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    yield from skipping()


def skipping() -> Generator[None]:
    try:
        yield
    except ToolsMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the hub's log to the report of a failed test."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        arguments: dict[str, Any] = item.funcargs
        for hub in (value for value in arguments.values() if isinstance(value, RealHub)):
            report.sections += [(f"log of {name}", tail) for name, tail in hub.logs().items()]
    return report
