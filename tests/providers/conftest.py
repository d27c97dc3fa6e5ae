from collections.abc import AsyncIterator, Iterator

import pytest

from providers.tools.monitoring import Monitoring, Proxy, monitored


@pytest.fixture(scope="session")
def monitoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    with monitored(tmp_path_factory.mktemp("prometheus")) as found:
        yield found


@pytest.fixture
async def proxy(monitoring: Monitoring) -> AsyncIterator[Proxy]:
    """In front of the Prometheus."""
    async with Proxy(monitoring.server.url).serving() as found:
        yield found
