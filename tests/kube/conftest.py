"""The fixtures of the tier, for these tests even where the whole suite's conftest doesn't name them."""

import pytest

from kube import fixtures


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(fixtures):
        config.pluginmanager.register(fixtures, fixtures.__name__)
