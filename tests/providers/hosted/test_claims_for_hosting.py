"""What the hosted-clusters provider publishes is what the placement of hosted clusters reads."""

from fairway.api import crds
from fairway.engine.workload import HostKey
from fairway.providers.hosted.capacity import COUNT, scores_of
from fairway.providers.hosted.options import HostedOptions
from fairway.workloads.hosting import Telemetry, place
from fairway.workloads.hosting.plugins.zones import TOO_FEW
from fairway.workloads.hosting.resources import CPU, MEMORY
from providers.hosted.hosting import HOSTED_CLUSTER, hosting, reading
from workloads.hosting.hosts import NOW, host, load, policy, request, state_of

H1 = HostKey("h1", "uid-h1")


async def test_published_claims_are_the_capacity_that_hosting_reads() -> None:
    limits = {"maximum": 10, "threshold": 5}
    async with hosting(*crds(), HOSTED_CLUSTER) as cluster:
        for zone in "abc":
            await cluster.node(f"n-{zone}", labels={"topology.kubernetes.io/zone": zone})
        values = (await reading(cluster, **limits)).values
        claims = await cluster.claims()
    scales = {score.name: score.scale for score in scores_of(HostedOptions.read(limits, environment={}))}
    scores = {name: scales[name].score(value) for name, value in values.items() if name != COUNT}
    published = host("h1", claims=claims), load("h1", count=0, scores=scores)

    state = state_of(*published, policy(capacity={"model": "Resources"}))
    telemetry = state.facts["h1"].telemetry
    assert isinstance(telemetry, Telemetry)
    # A slots score of 90 stands for 9 of at most 10, not for 72 of 80.
    assert telemetry.slots == {name: value for name, value in values.items() if name.startswith("hcpSlots")}
    assert telemetry.slots["hcpSlotsSmall"] == 9
    free = state.free(H1)
    assert (free[CPU], free[MEMORY]) == (48_000, 192 * 2**30 * 1000)

    wide, wider = (request(f"r{zones}", constraints={"minZones": zones}) for zones in (3, 4))
    selected, refused = place(state, [wide, wider], now=NOW)
    assert selected.host == H1
    assert [rejection.reason for rejection in refused.rejections] == [TOO_FEW.format(found=3, wanted=4)]
