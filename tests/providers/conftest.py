import logging
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from providers.tools.monitoring import Monitoring, Proxy, monitored


def _ours(record: logging.LogRecord) -> bool:
    return not (record.threadName or "").startswith(f"{threading.main_thread().name}_")


@pytest.fixture(autouse=True)
def only_of_the_test(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Exclude log records of background servers of other tests."""
    caplog.handler.addFilter(_ours)
    yield
    caplog.handler.removeFilter(_ours)


@pytest.fixture(scope="session")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    with monitored(tmp_path_factory.mktemp("prometheus")) as found:
        yield found


@pytest.fixture
async def proxy(monitoring: Monitoring) -> AsyncIterator[Proxy]:
    """In front of the Prometheus."""
    async with Proxy(monitoring.server.url).serving() as found:
        yield found
