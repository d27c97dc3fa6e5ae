from typing import Any

import pytest

from fairway.providers.catalogue import OptionsError
from fairway.providers.usage.accounting import Accounting
from fairway.providers.usage.measures import measures
from fairway.providers.usage.options import UsageOptions
from providers.usage.objects import as_node, as_pod, node, pod

GPU = "nvidia.com/gpu"


def scores(given: dict[str, Any], accounting: Accounting) -> dict[str, int]:
    totals = accounting.totals()
    taken = {each.score: each.take(totals) for each in measures(UsageOptions.read(given, environment={}))}
    return {score.name: score.scale.score(value) for score, value in taken.items() if value is not None}


def raw(given: dict[str, Any], accounting: Accounting) -> dict[str, float]:
    totals = accounting.totals()
    taken = {
        each.score.name: each.take(totals) for each in measures(UsageOptions.read(given, environment={}))
    }
    return {name: value for name, value in taken.items() if value is not None}


def free(cpu: str = "0", memory: str = "0", **more: str) -> Accounting:
    accounting = Accounting()
    accounting.update_node(as_node(node("n1", {"cpu": cpu, "memory": memory, "pods": "110", **more})))
    return accounting


@pytest.mark.parametrize(
    ("cores", "score"),
    [(0, -100), (1, -98), (4, -92), (16, -68), (24, -52), (40, -20), (100, 100), (900, 100)],
)
def test_symmetric_cpu_of_ocm_s_add_on(cores: int, score: int) -> None:
    assert scores({"floor": -100}, free(cpu=str(cores)))["cpuAvailable"] == score


@pytest.mark.parametrize(
    ("gib", "score"),
    [
        (0, -100),
        (1, -99),
        (8, -98),
        (32, -93),
        (64, -87),
        (128, -75),
        (256, -50),
        (512, 0),
        (1024, 100),
        (9999, 100),
    ],
)
def test_symmetric_memory_of_ocm_s_add_on(gib: int, score: int) -> None:
    assert scores({"floor": -100}, free(memory=f"{gib}Gi"))["memAvailable"] == score


@pytest.mark.parametrize("spread", ["linear", "share"])
@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        ("0", "0", (0, 0)),
        ("12", "49265496Ki", (12, 4)),
        ("29", "10Gi", (29, 0)),
        ("99900m", "512Gi", (99, 50)),
        ("101", "2Ti", (100, 100)),
    ],
)
def test_default_scores_are_those_of_ocm_s_article(
    cpu: str, memory: str, expected: tuple[int, int], spread: str
) -> None:
    given = {"scales": {"available": spread}, "scores": ["cpuAvailable", "memAvailable"]}
    assert tuple(scores(given, free(cpu=cpu, memory=memory)).values()) == expected


def test_other_limits() -> None:
    given = {
        "limits": {"cpuAvailable": 32, "mem": "128Gi", "gpuNodeAvailable": 8},
        "scales": {"node": "linear"},
    }
    found = scores(given, free(cpu="16", memory="64Gi", **{GPU: "2"}))
    assert (found["cpuAvailable"], found["memAvailable"], found["memNodeAvailable"]) == (50, 50, 50)
    assert found["gpuNodeAvailable"] == 25


def test_a_logarithmic_score_tells_small_clusters_apart_and_large_ones() -> None:
    name = "cpuClusterAvailable"
    found = [scores({}, free(cpu=str(cores)))[name] for cores in (0, 2, 4, 50, 100, 200, 2000, 4000, 9999)]
    assert found[0] == 0
    assert found[4] == 50
    assert sorted(set(found)) == found


def test_what_a_cluster_does_not_have_is_left_out() -> None:
    assert "gpuNodeAvailable" not in scores({}, free(cpu="4"))
    busy = free(cpu="4", **{GPU: "1"})
    busy.update_pod(as_pod(pod("p", "n1", {GPU: "1"})))
    assert scores({}, busy)["gpuNodeAvailable"] == 0
    cordoned = Accounting()
    cordoned.update_node(as_node(node("n1", {"cpu": "4", GPU: "1"}, cordoned=True)))
    assert scores({}, cordoned)["gpuClusterAvailable"] == 0


def test_a_cluster_without_nodes_has_no_room() -> None:
    found = scores({}, Accounting())
    assert {name for name, score in found.items() if score == 0} == {
        "cpuAvailable",
        "memAvailable",
        "cpuNodeAvailable",
        "cpuClusterAvailable",
        "memNodeAvailable",
        "memClusterAvailable",
        "podsAvailable",
    }
    assert found["podsPending"] == 100


def test_raw_values_are_in_units_people_use() -> None:
    accounting = free(cpu="1500m", memory="3Gi", **{"hugepages-2Mi": "512Mi", "example.com/card": "7"})
    found = raw({"resources": {"huge": "hugepages-2Mi", "card": "example.com/card"}}, accounting)
    assert (found["cpuAvailable"], found["memAvailable"], found["podsAvailable"]) == (1.5, 3.0, 110.0)
    assert (found["hugeNodeAvailable"], found["cardClusterAvailable"]) == (0.5, 7.0)


def test_pods_that_wait_lower_what_is_free_if_asked_to() -> None:
    accounting = free(cpu="16", memory="8Gi")
    accounting.update_pod(as_pod(pod("p", requests={"cpu": "4", "memory": "20Gi"}, phase="Pending")))
    assert raw({}, accounting)["cpuAvailable"] == 16.0
    found = raw({"countPending": True}, accounting)
    assert (found["cpuAvailable"], found["memAvailable"], found["podsAvailable"]) == (12.0, 0.0, 109.0)
    assert found["cpuNodeAvailable"] == 16.0
    assert scores({}, accounting)["podsPending"] < 100


def test_how_many_of_a_shape_fit() -> None:
    given = {"shapes": {"web": {"cpu": "3", "memory": "1Gi"}}}
    accounting = Accounting(shapes=UsageOptions.read(given, environment={}).shapes)
    for name in ("n1", "n2"):
        accounting.update_node(as_node(node(name, {"cpu": "8", "memory": "64Gi", "pods": "110"})))
    # Five times three cores are free, but no third pod fits on either node.
    assert raw(given, accounting)["slots.web"] == 4.0


EIGHT = [f"{key}{scope}Available" for key in ("cpu", "mem", "gpu", "tpu") for scope in ("Node", "Cluster")]


def upstream(parity: str) -> dict[str, int]:
    options = UsageOptions.read({"parity": parity}, environment={})
    accounting = Accounting(policy=options.policy, basis=options.basis, floor=False)
    tainted = [("dedicated", "", "NoSchedule")]
    accounting.update_node(as_node(node("n1", {"cpu": "24", "memory": "600Gi", GPU: "3"}, ready=False)))
    accounting.update_node(as_node(node("n2", {"cpu": "8", "memory": "64Gi"}, taints=tainted)))
    accounting.update_node(as_node(node("n3", {"cpu": "500", "memory": "64Gi"}, cordoned=True)))
    accounting.update_pod(as_pod(pod("p", "n2", {"cpu": "20", "memory": "76Gi"})))
    accounting.update_pod(as_pod(pod("q", "n1", {"cpu": "4", GPU: "1"}, terminating=True)))
    return scores({"parity": parity}, accounting)


def test_the_eight_numbers_of_ocm_s_add_on() -> None:
    assert upstream("upstream-fixed") == dict(
        zip(EIGHT, [-52, -76, 17, 14, -70, -70, -100, -100], strict=True)
    )


def test_and_those_it_gives_today() -> None:
    assert upstream("upstream") == dict(zip(EIGHT, [-52, -76, 100, 100, -70, -70, -100, -100], strict=True))


def test_ratios_are_what_is_free_of_all_that_nodes_have() -> None:
    accounting = free(cpu="24", memory="48Gi")
    accounting.update_node(as_node(node("n2", {"cpu": "8", "memory": "16Gi"})))
    accounting.update_node(as_node(node("n3", {"cpu": "64", "memory": "64Gi"}, cordoned=True)))
    accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "8", "memory": "16Gi"})))
    names = ("ResourceRatioCPU", "ResourceRatioMemory")
    assert [scores({"ratios": True}, accounting)[name] for name in names] == [75, 75]
    accounting.remove_node(as_node(node("n2", {"cpu": "8", "memory": "16Gi"})))
    found = raw({"ratios": True}, accounting)
    assert found["ResourceRatioCPU"] == pytest.approx(100 * 16 / 24)
    assert scores({"ratios": True}, Accounting())["ResourceRatioCPU"] == 0
    assert not set(names) & set(scores({}, accounting))


def test_every_score_explains_itself() -> None:
    for each in measures(UsageOptions.read({"shapes": {"web": {"cpu": 1}}}, environment={})):
        assert each.score.meaning.endswith(".")
        assert each.score.unit or each.score.name[:3] in ("gpu", "tpu")


def test_the_environment_may_name_the_scores() -> None:
    named = {"SCORES": "memAvailable, cpuAvailable"}
    assert [each.score.name for each in measures(UsageOptions.read({}, environment=named))] == [
        "cpuAvailable",
        "memAvailable",
    ]
    chosen = UsageOptions.read({"scores": ["podsAvailable"]}, environment=named)
    assert [each.score.name for each in measures(chosen)] == ["podsAvailable"]
    with pytest.raises(OptionsError, match="cpuAvailble"):
        measures(UsageOptions.read({}, environment={"SCORES": "cpuAvailble"}))
