from typing import Any

import pytest

from fairway.providers.catalogue import CATALOGUE, Context, OptionsError
from fairway.providers.usage.measures import measures
from fairway.providers.usage.options import UsageOptions
from fairway.providers.usage.policy import UPSTREAM, CountingPolicy, Toleration

TIB = 2**40


def read(given: dict[str, Any], **environment: str) -> UsageOptions:
    options = UsageOptions.read(given, environment=environment)
    measures(options)
    return options


def test_usage_defaults() -> None:
    assert read({}) == UsageOptions()


def test_all_usage_options() -> None:
    options = read(
        {
            "basis": "usage",
            "countNotReady": True,
            "countCordoned": True,
            "countTainted": True,
            "controlPlane": "ignore",
            "toleratedTaints": ["dedicated=batch:NoSchedule"],
            "nodeSelector": "pool=a",
            "countTerminating": False,
            "countPending": True,
            "resources": {"tpu": None, "fpga": "xilinx.com/fpga"},
            "shapes": {"web": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 0}},
            "scales": {"available": "share"},
            "limits": {"cpu": 64, "memAvailable": "2Ti", "slots.web": 500},
            "scores": ["cpuAvailable", "slots.web"],
            "interval": "30s",
        }
    )
    assert options.policy == CountingPolicy(
        not_ready=True,
        cordoned=True,
        tainted=True,
        control_plane="ignore",
        tolerated=(Toleration("dedicated", "batch", "NoSchedule"),),
        terminating=False,
    )
    assert options.resources == {
        "cpu": "cpu", "mem": "memory", "gpu": "nvidia.com/gpu", "fpga": "xilinx.com/fpga"
    }  # fmt: skip
    assert options.shapes[0].vector == (("cpu", 500), ("memory", 2**30), ("pods", 1))
    assert options.limits == {"cpu": 64, "memAvailable": 2 * TIB, "slots.web": 500}
    assert (options.basis, options.count_pending, options.interval) == ("usage", True, 30.0)
    assert (options.node_selector, options.scales.available) == ("pool=a", "share")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bassis": "usage"}, "bassis: is an unknown field; did you mean 'basis'?"),
        ({"basis": "used"}, "basis: must be one of both, requests, usage"),
        ({"controlPlane": "no"}, "controlPlane: must be one of by-taint, count, ignore"),
        ({"parity": True}, "parity: expected text, got true or false"),
        ({"scales": {"node": "log"}}, "scales.node: must be one of linear, logarithmic, share"),
        ({"countTainted": "yes"}, "countTainted: expected true or false, got text"),
        ({"toleratedTaints": ["a", "b c"]}, "toleratedTaints[1]: 'b c' is not a taint: write its key"),
        ({"interval": "never"}, "interval: expected a duration such as 30s"),
        ({"interval": 0.5}, "interval: must be at least 1s"),
        ({"resources": {"GPU": "nvidia.com/gpu"}}, "resources[GPU]: 'GPU' cannot start the name of a score"),
        ({"resources": {"pods": "pods"}}, "resources.pods: 'pods' is reserved"),
        ({"resources": {"gpu": "nvidia gpu"}}, "resources.gpu: 'nvidia gpu' is not a resource: write its name"),
        ({"shapes": {"Web": {"cpu": 1}}}, "shapes[Web]: 'Web' is not a valid name of a shape: use lower-case letters"),
        ({"shapes": {"web": {}}}, "shapes.web: requests nothing; write the requests of one pod"),
        ({"shapes": {"web": {"cpu": "0"}}}, "shapes.web: requests nothing"),
        ({"shapes": {"web": {"cpu": "lots"}}}, 'shapes.web[cpu]: quantity "lots" does not start with a number'),
        ({"shapes": {"web": {"cpu": "-1"}}}, "shapes.web[cpu]: '-1' is negative; write 0 or more"),
        ({"shapes": {f"s{n}": {"cpu": 1} for n in range(51)}}, "shapes: there are more than 50"),
        ({"limits": {"cpu": "many"}}, 'limits.cpu: quantity "many" does not start with a number'),
        ({"limits": {"cpu": 0}}, "limits.cpu: 0 must be greater than 0: it is the value that scores 100"),
        ({"limits": {"cpu": "1e400"}}, "limits.cpu: '1e400' must be greater than 0"),
        ({"limits": {"cpu": "1e2147483647"}}, "limits.cpu: '1e2147483647' must be greater than 0"),
        ({"limits": {"cpus": 4}}, "limits.cpus: there is no score 'cpus' and none begins with it, did you mean 'cpu'?"),
        ({"scores": ["cpuavailable"]}, "scores[0]: there is no score 'cpuavailable', did you mean 'cpuAvailable'?"),
        ({"scales": {"avail": "linear"}}, "scales.avail: is an unknown field; did you mean 'available'?"),
        ({"parity": "upstream", "limits": {"cpu": 4}}, "limits: parity determines it; remove it"),
    ],
)  # fmt: skip
def test_invalid_usage_option_names_its_field(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError) as refused:
        read(given)
    assert str(refused.value).startswith(message)


def test_usage_limits_from_environment() -> None:
    options = read({}, MAXCPUCOUNT="200", MAXMEMCOUNT="1048576")
    assert options.limits == {"cpuAvailable": 200, "memAvailable": TIB}
    assert read({}, MAXMEMCOUNT="512Gi").limits == {"memAvailable": TIB / 2}
    assert read({"limits": {"cpu": 64}}, MAXCPUCOUNT="200").limits == {"cpu": 64}
    assert read({"limits": {"cpuAvailable": 64}}, MAXCPUCOUNT="200").limits == {"cpuAvailable": 64}
    assert read({"resources": {"cpu": None}}, MAXCPUCOUNT="200").limits == {}
    assert read({"parity": "upstream"}, MAXCPUCOUNT="200").limits == {}
    assert read({}, MAXCPUCOUNT=" ").limits == {}
    chosen = read({}, SCORE_NAME="test-score1", RATIOS="true", SCORE_FLOOR="-100")
    assert (chosen.resource, chosen.ratios, chosen.floor) == ("test-score1", True, -100)
    assert (
        read({"resource": "mine", "floor": 0}, SCORE_NAME="test-score1", SCORE_FLOOR="-100").resource
        == "mine"
    )
    assert read({}, PARITY="upstream-fixed").parity == "upstream-fixed"
    for wrong in ({"SCORE_FLOOR": "-50"}, {"RATIOS": "yes"}, {"PARITY": "up"}, {"SCORE_NAME": "No Name"}):
        with pytest.raises(OptionsError, match=next(iter(wrong.values()))):
            read({}, **wrong)
    with pytest.raises(OptionsError, match="floor: parity determines it"):
        read({}, PARITY="upstream", SCORE_FLOOR="0")
    with pytest.raises(OptionsError, match=r'^the environment variable MAXCPUCOUNT: quantity "all" does not'):
        read({}, MAXCPUCOUNT="all")


def test_parity_option_uses_upstream_policy() -> None:
    options = read({"parity": "upstream-fixed"})
    assert (options.policy, options.basis) == (UPSTREAM, "requests")


async def test_usage_factory_needs_local_cluster() -> None:
    factory = CATALOGUE["resource-usage"].factory()
    with pytest.raises(OptionsError, match="resource-usage reads the cluster it runs on"):
        factory({}, Context(name="resource-usage"))
