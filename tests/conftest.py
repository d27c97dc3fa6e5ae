"""How tests run here, wherever they are started.

Property tests run without clocks, and in CI the same way every time.

At a desk every run tries other examples, which is how faults are found. What decides whether a change lands must not
be a matter of luck, so CI tries the same ones each time.
"""

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from complaints import listening
from fairway.testing.plugin import fairway_hub

__all__ = ["fairway_hub"]

pytest_plugins = ["kube.fixtures"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # What a shell starts in the background ignores Ctrl-C, and so would every process the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
if os.environ.get("CI"):
    # Hypothesis also tries constants of our modules, as far as they are imported: others for every order of tests.
    vars(providers)["_get_local_constants"] = lambda: providers._local_constants


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that is run within a test logs to the test's own streams, which are closed after it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    assert not root.manager.disable, "something in this test has switched logging off for all tests after it"
    for each in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(each)
    if root.level != level:
        root.setLevel(level)


@pytest.fixture
def complaints() -> Iterator[None]:
    """Fails a test in which something went wrong that was not foreseen, and was only logged."""
    with listening() as heard:
        yield
    assert not heard, "\n".join(heard)


def pytest_collection_finish() -> None:
    """Spare the garbage collector from walking thousands of collected tests in every full collection."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="write what the real hub answers into tests/golden"
    )
