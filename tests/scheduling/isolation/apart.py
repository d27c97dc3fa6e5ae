"""A plugin file for tests of isolation, and what loads it."""

from pathlib import Path
from typing import Any

from fairway.hosts.clusters import Fleet
from fairway.scheduling import Scheduling, Supervisor, load
from fairway.testing import builders
from fairway.workloads.placement.profile import PLACEMENT_KIND

FILE = '''
import itertools, os, re, signal
from fairway.engine.points import Raw, Reads
from fairway.engine.status import OK, unschedulable

TIER, PRICE = ("label", "tier"), ("label", "price")
hoard = []


def mood(context):
    return context.workload.spec.metadata.annotations.get("mood", "")


class Moody:
    """Does what the annotation ``mood`` of the placement says; otherwise rejects bronze, and prefers low prices."""

    name = "Moody"

    def __init__(self, *, strength=1):
        if strength < 1:
            raise ValueError("strength must be at least 1")
        self._strength = strength

    def pre_filter(self, context):
        context.state.write("Moody", "prepared")
        return OK, None

    def filter(self, context, row):
        match mood(context):
            case "loops in C":
                re.match("(a+)+$", "a" * 60 + "b")
            case "exits":
                os._exit(3)
            case "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "crashes":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hoards":
                for _ in range(1000):
                    hoard.append(bytearray(1 << 20))
            case "raises":
                raise ValueError("no tiers today")
            case "scribbles":
                # The more files the scheduler has open, the higher is the number of the connection.
                for descriptor in sorted(map(int, os.listdir("/dev/fd")))[3:]:
                    try:
                        os.write(descriptor, b"x" * 4096)
                    except OSError:
                        pass
            case "modifies":
                context.snapshot.hosts.names[row] = "mine"
            case "looks around":
                context.snapshot.decisions.clusters_of(("ns", "web"))
        if context.snapshot.codes(TIER).value(row) == "bronze":
            return unschedulable(f"{context.snapshot.hosts.names[row]} is bronze", plugin=self.name)
        return OK

    def pre_score(self, context, rows):
        assert context.state.read("Moody", str) == "prepared"
        return OK

    def score(self, context, row):
        price = context.snapshot.codes(PRICE).value(row)
        labels = context.snapshot.host(row).metadata.labels
        assert labels.get("price") == price
        return None if price is None else -int(price) * self._strength

    def normalize(self, raw, extent):
        spread = extent.high - extent.low
        return min(100, int(100 * (raw - extent.low) / spread)) if spread else 0

    def normalize_fleet(self, raw, extent):
        import numpy as np
        return np.array([self.normalize(value, extent) for value in raw.tolist()], dtype=np.int64)

    def reads(self, context):
        return Reads(cells=frozenset({TIER, PRICE}))

    def basis(self, context):
        return None

    def until(self, context, rows):
        return 2**63 - 1


class Approval:
    name = "Approval"

    def filter(self, context, row):
        return OK

    def permit(self, context):
        return OK, None
'''

CONFIGURATION = """
apiVersion: fairway.dev/v1alpha1
kind: SchedulerConfiguration
pluginFiles: [moody.py]
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Moody}]
  onPluginFault: %(on_fault)s
"""
ISOLATED = """  pluginConfig:
  - name: Moody
    isolation: process
    memoryLimit: 64Mi
"""
HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\npluginFiles: [moody.py]\n"


def write(folder: Path, *, isolated: bool = True, on_fault: str = "Fail") -> Path:
    """Write the plugin and its configuration; return the path of the configuration."""
    (folder / "moody.py").write_text(FILE)
    path = folder / ("isolated.yaml" if isolated else "inside.yaml")
    path.write_text(CONFIGURATION % {"on_fault": on_fault} + (ISOLATED if isolated else ""))
    return path


def loaded(path: Path, supervisor: Supervisor) -> Scheduling:
    return load(path, kind=PLACEMENT_KIND, supervisor=supervisor)


def fleet_of(prices: dict[str, str]) -> Fleet:
    fleet = Fleet()
    fleet.upsert_set(builders.cluster_set("default"))
    fleet.upsert_binding(builders.binding("default", namespace="ns"))
    for name, price in prices.items():
        fleet.upsert_cluster(builders.cluster(name, labels={"price": price}))
    return fleet


def workload(mood: str = "") -> Any:
    from fairway.workloads.placement.workload import PlacementWorkload

    placement = builders.placement("web", namespace="ns", annotations={"mood": mood} if mood else {})
    return PlacementWorkload(placement)
