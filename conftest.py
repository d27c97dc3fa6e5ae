"""Settings and fixtures of all tests.

Property tests have no deadlines. Locally every run uses other examples, which finds more faults; with ``CI`` set, every
run uses the same ones, so that the result of a check is reproducible.
"""

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from looptime._internal import plugin as looptime_plugin

from error_logs import recorded_errors
from fairway.testing.plugin import fairway_hub

__all__ = ["fairway_hub"]

pytest_plugins = ["kube.fixtures"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and the processes that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "desk", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", parent=settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
if os.environ.get("CI"):
    # Hypothesis uses constants of imported modules as examples, which depend on the order of the tests.
    vars(providers)["_get_local_constants"] = lambda: providers._local_constants

# looptime lists the names in pytest-asyncio again for every fixture of every test, to find those with an event loop.
vars(looptime_plugin)["_should_patch"] = lambda definition, _: (
    definition.func.__module__ == "pytest_asyncio.plugin"
)

gc.disable()  # until all tests are collected: of the objects created until then, nearly all stay


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Remove log handlers that a command added: they write to streams of the test, which are closed after it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    assert not root.manager.disable, "this test disabled logging for all later tests"
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
    if root.level != level:
        root.setLevel(level)


@pytest.fixture
def no_error_logs() -> Iterator[None]:
    """Fail a test in which Fairway logged an error."""
    with recorded_errors() as errors:
        yield
    assert not errors, "\n".join(errors)


def pytest_collection_finish() -> None:
    """Spare the garbage collector from walking thousands of collected tests in every full collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write responses of the real hub to tests/golden")
