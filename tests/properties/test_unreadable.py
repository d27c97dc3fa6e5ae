"""Whatever an agent writes into what it may write, an administrator's word on its cluster holds."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from api.test_salvage import DOCUMENTS, JUNK, places, read, replaced
from fairway.api.cluster import CLUSTER_SET_LABEL, ManagedCluster
from fairway.api.placement import PlacementSpec, Toleration
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.testing.builders import addon, builtin, cluster, policy
from strategies import NOW_MICROS
from workloads.placement.plugins.verdicts import look

MINE = (ManagedCluster, AddOnPlacementScore, ManagedClusterScore)
"""Kinds whose status the agent of a cluster writes."""
SPEC = PlacementSpec(
    prioritizerPolicy=policy(addon("cpu"), builtin("Health"), builtin("ResourceAllocatableCPU")),
    tolerations=(Toleration(key="k", operator="Exists", tolerationSeconds=3600),),
)
NAMES = {
    ManagedCluster: ("", "n"),
    AddOnPlacementScore: ("n", "default"),
    ManagedClusterScore: ("n", "n-health"),
}

junk = st.sampled_from([(kind, path) for kind in MINE for path in places(DOCUMENTS[kind]["status"])])


@settings(max_examples=60)
@given(st.lists(st.tuples(junk, st.sampled_from(JUNK)), max_size=6), st.booleans())
def test_tainted_cluster_is_never_selected_whatever_its_agent_writes(
    written: list[tuple[tuple[Any, tuple[str | int, ...]], Any]], tainted: bool
) -> None:
    taints = [{"key": "quarantine", "effect": "NoSelect"}] if tainted else []
    objects = []
    for kind in MINE:
        namespace, name = NAMES[kind]
        document = DOCUMENTS[kind] | {
            "metadata": {"name": name, "namespace": namespace, "labels": {CLUSTER_SET_LABEL: "default"}}
        }
        if kind is ManagedCluster:
            document["spec"] = {"hubAcceptsClient": True, "taints": taints}
        for (changed, path), value in written:
            if changed is kind:
                try:
                    document = replaced(document, ("status", *path), value)
                except (KeyError, IndexError, TypeError):
                    continue  # an earlier change removed the place
        objects.append(read(kind, document))
    verdict = look(*objects, cluster("other"), spec=SPEC, now=NOW_MICROS)
    assert set(verdict.outcome.selected) == ({"other"} if tainted else {"other", "n"})
