"""Delete scores of other tests on the shared hub first."""

from typing import Any

import pytest

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES
from kubewire.client import Client, Resource

_KINDS: tuple[Resource[Any], ...] = (ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES)


@pytest.fixture
async def empty(client: Client) -> None:
    for resource in _KINDS:
        for obj in (await client.list(resource)).items:
            await client.delete(resource, obj.metadata.name, namespace=obj.metadata.namespace)
