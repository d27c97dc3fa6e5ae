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
    taken = {
        measure.score: measure.measure(totals)
        for measure in measures(UsageOptions.read(given, environment={}))
    }
    return {score.name: score.scale.score(value) for score, value in taken.items() if value is not None}


def raw(given: dict[str, Any], accounting: Accounting) -> dict[str, float]:
    totals = accounting.totals()
    taken = {
        measure.score.name: measure.measure(totals)
        for measure in measures(UsageOptions.read(given, environment={}))
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
def test_symmetric_cpu_score_matches_ocm_addon(cores: int, score: int) -> None:
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
def test_symmetric_memory_score_matches_ocm_addon(gib: int, score: int) -> None:
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
def test_default_usage_scores_match_ocm_article(
    cpu: str, memory: str, expected: tuple[int, int], spread: str
) -> None:
    given = {"scales": {"available": spread}, "scores": ["cpuAvailable", "memAvailable"]}
    assert tuple(scores(given, free(cpu=cpu, memory=memory)).values()) == expected


def test_usage_limits_change_scores() -> None:
    given = {
        "limits": {"cpuAvailable": 32, "mem": "128Gi", "gpuNodeAvailable": 8},
        "scales": {"node": "linear"},
    }
    published = scores(given, free(cpu="16", memory="64Gi", **{GPU: "2"}))
    assert (published["cpuAvailable"], published["memAvailable"], published["memNodeAvailable"]) == (
        50,
        50,
        50,
    )
    assert published["gpuNodeAvailable"] == 25


def test_logarithmic_usage_score_separates_small_and_large() -> None:
    name = "cpuClusterAvailable"
    values = [scores({}, free(cpu=str(cores)))[name] for cores in (0, 2, 4, 50, 100, 200, 2000, 4000, 9999)]
    assert values[0] == 0
    assert values[4] == 50
    assert sorted(set(values)) == values


def test_absent_resources_have_no_score() -> None:
    assert "gpuNodeAvailable" not in scores({}, free(cpu="4"))
    busy = free(cpu="4", **{GPU: "1"})
    busy.update_pod(as_pod(pod("p", "n1", {GPU: "1"})))
    assert scores({}, busy)["gpuNodeAvailable"] == 0
    cordoned = Accounting()
    cordoned.update_node(as_node(node("n1", {"cpu": "4", GPU: "1"}, cordoned=True)))
    assert scores({}, cordoned)["gpuClusterAvailable"] == 0


def test_cluster_without_nodes_scores_zero() -> None:
    published = scores({}, Accounting())
    assert {name for name, score in published.items() if score == 0} == {
        "cpuAvailable",
        "memAvailable",
        "cpuNodeAvailable",
        "cpuClusterAvailable",
        "memNodeAvailable",
        "memClusterAvailable",
        "podsAvailable",
    }
    assert published["podsPending"] == 100


def test_raw_usage_values_have_display_units() -> None:
    accounting = free(cpu="1500m", memory="3Gi", **{"hugepages-2Mi": "512Mi", "example.com/card": "7"})
    values = raw({"resources": {"huge": "hugepages-2Mi", "card": "example.com/card"}}, accounting)
    assert (values["cpuAvailable"], values["memAvailable"], values["podsAvailable"]) == (1.5, 3.0, 110.0)
    assert (values["hugeNodeAvailable"], values["cardClusterAvailable"]) == (0.5, 7.0)


def test_count_pending_reduces_free_resources() -> None:
    accounting = free(cpu="16", memory="8Gi")
    accounting.update_pod(as_pod(pod("p", requests={"cpu": "4", "memory": "20Gi"}, phase="Pending")))
    assert raw({}, accounting)["cpuAvailable"] == 16.0
    values = raw({"countPending": True}, accounting)
    assert (values["cpuAvailable"], values["memAvailable"], values["podsAvailable"]) == (12.0, 0.0, 109.0)
    assert values["cpuNodeAvailable"] == 16.0
    assert scores({}, accounting)["podsPending"] < 100


def test_slots_of_shapes() -> None:
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


def test_upstream_parity_matches_fixed_ocm_addon() -> None:
    assert upstream("upstream-fixed") == dict(
        zip(EIGHT, [-52, -76, 17, 14, -70, -70, -100, -100], strict=True)
    )


def test_upstream_parity_matches_current_ocm_addon() -> None:
    assert upstream("upstream") == dict(zip(EIGHT, [-52, -76, 100, 100, -70, -70, -100, -100], strict=True))


def test_ratios_are_free_share_of_allocatable() -> None:
    accounting = free(cpu="24", memory="48Gi")
    accounting.update_node(as_node(node("n2", {"cpu": "8", "memory": "16Gi"})))
    accounting.update_node(as_node(node("n3", {"cpu": "64", "memory": "64Gi"}, cordoned=True)))
    accounting.update_pod(as_pod(pod("p", "n1", {"cpu": "8", "memory": "16Gi"})))
    names = ("ResourceRatioCPU", "ResourceRatioMemory")
    assert [scores({"ratios": True}, accounting)[name] for name in names] == [75, 75]
    accounting.remove_node(as_node(node("n2", {"cpu": "8", "memory": "16Gi"})))
    values = raw({"ratios": True}, accounting)
    assert values["ResourceRatioCPU"] == pytest.approx(100 * 16 / 24)
    assert scores({"ratios": True}, Accounting())["ResourceRatioCPU"] == 0
    assert not set(names) & set(scores({}, accounting))


def test_every_usage_score_has_a_meaning() -> None:
    for measure in measures(UsageOptions.read({"shapes": {"web": {"cpu": 1}}}, environment={})):
        assert measure.score.meaning.endswith(".")
        assert measure.score.unit or measure.score.name[:3] in ("gpu", "tpu")


def test_environment_selects_usage_scores() -> None:
    named = {"SCORES": "memAvailable, cpuAvailable"}
    assert [measure.score.name for measure in measures(UsageOptions.read({}, environment=named))] == [
        "cpuAvailable",
        "memAvailable",
    ]
    chosen = UsageOptions.read({"scores": ["podsAvailable"]}, environment=named)
    assert [measure.score.name for measure in measures(chosen)] == ["podsAvailable"]
    with pytest.raises(OptionsError, match="cpuAvailble"):
        measures(UsageOptions.read({}, environment={"SCORES": "cpuAvailble"}))
