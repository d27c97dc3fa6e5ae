"""A dry run of the provider writes no claims."""

import pytest

from fairway.api import crds
from fairway.providers.catalogue import Context
from fairway.providers.hosted.capacity import COUNT
from fairway.providers.hosted.provider import hosted_clusters
from providers.hosted.hosting import HOSTED_CLUSTER, hosting


@pytest.mark.parametrize("dry_run", [True, False])
async def test_dry_run_writes_no_claims(dry_run: bool) -> None:
    async with hosting(*crds(), HOSTED_CLUSTER) as cluster:
        await cluster.node("n1")
        provider = hosted_clusters({}, Context(name="hosted", local=cluster.client, dry_run=dry_run))
        async with provider.running(lambda: None):
            assert (await provider.read()).values[COUNT] == 0
        assert bool(await cluster.claims()) is not dry_run
