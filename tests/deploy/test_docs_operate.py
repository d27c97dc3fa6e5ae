"""docs/how-to/operate.md: its tables match the code, and its commands run on a real hub."""

import json
from pathlib import Path

import pytest

from deploy.documents import ROOT, sections
from deploy.reader import Reader, reader
from fairway.controllers import manager, settings
from fairway.controllers.availability import AvailabilityController
from fairway.controllers.runtime.reconciler import BACKOFF
from kubewire.client import Timing
from rigs.kubernetes import Tools

TEXT = (ROOT / "docs/how-to/operate.md").read_text(encoding="utf-8")
PAGE = sections("docs/how-to/operate.md")
FLAGS, ALERTS, LEADS, SHARDS, WHY = (
    "Flags of `fairway run`",
    "Alerts",
    "Who leads",
    "Shards",
    "Why did a placement select these clusters?",
)
MONITORING = ("ServiceMonitor", "PrometheusRule")


def rows(section: str) -> list[list[str]]:
    """Return the rows of the table in a section."""
    part = TEXT.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    table = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_operate_page_has_the_values_of_the_code() -> None:
    timing = Timing()
    assert ("is replaced after 15 seconds" in TEXT, timing.lease) == (True, 15)
    assert ("stops leading 10 seconds after" in TEXT, timing.renew) == (True, 10.0)
    assert ("not ready after a minute" in TEXT, manager.STALE_SECONDS) == (True, 60.0)
    assert ("noticed within 30 s" in TEXT, manager.OCM_SECONDS) == (True, 30.0)
    assert ("back-off up to a minute" in TEXT, BACKOFF.cap) == (True, 60.0)
    assert ("is silent for 5 minutes" in TEXT, settings.Settings().grace) == (True, 5.0)
    assert AvailabilityController.name == settings.AVAILABILITY


def test_operate_page_commands_are_all_executed() -> None:
    assert {title for title, blocks in PAGE.items() if blocks} == {FLAGS, ALERTS, LEADS, SHARDS, WHY}


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
@pytest.mark.kube
async def test_operate_page_commands_work(kube_tools: Tools, tmp_path: Path) -> None:
    async with reader(kube_tools, tmp_path) as me:
        await me.kubectl("apply -k deploy")
        await me.kubectl("-n fairway-system rollout status deployment/fairway")
        async with me.fleet():
            await me.shell.run("fairway clusterset bind default --namespace default")
            await me.kubectl("apply -f examples/most-free-cpu.yaml")
            await me.kubectl("wait --for=condition=PlacementSatisfied placement/most-free-cpu --timeout=120s")
            await flags(me)
            await alerts(me)
            await why(me)
            await shards(me)


async def flags(me: Reader) -> None:
    (commands,) = PAGE[FLAGS]
    assert "successfully rolled out" in await me.shell.run(commands)
    assert [name for name in me.node.pods if '"level":"debug"' in me.node.log(name)]
    await me.kubectl("-n fairway-system rollout status deployment/fairway")


async def alerts(me: Reader) -> None:
    """The CRDs of the Prometheus operator are sufficient."""
    for kind in MONITORING:
        await me.shell.run(f"cat <<'EOF' | kubectl create -f -\n{json.dumps(definition(kind))}\nEOF")
    await me.served()
    (commands,) = PAGE[ALERTS]
    printed = await me.shell.run(commands)
    assert "servicemonitor.monitoring.coreos.com/fairway created" in printed
    assert "prometheusrule.monitoring.coreos.com/fairway created" in printed


def definition(kind: str) -> dict[str, object]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


async def why(me: Reader) -> None:
    ask, rights, debug = PAGE[WHY]
    printed = await me.shell.run(ask)
    assert "DecisionCreate" in printed
    assert "default/most-free-cpu: 3 of 3 clusters" in printed
    await me.shell.run(rights)
    running = next(pod for pod in reversed(me.node.pods.values()) if pod.ready)  # not one that is ending
    shown = await me.shell.run(debug.replace("127.0.0.1:9443", f"127.0.0.1:{running.ports['debug']}"))
    answer = json.loads(shown)
    assert answer["placement"]["metadata"]["name"] == "most-free-cpu"
    assert len(answer["aggregatedScores"]) == 6


async def shards(me: Reader) -> None:
    (commands,) = PAGE[SHARDS]
    printed = await me.shell.run(commands)
    (leases,) = PAGE[LEADS]
    await me.shows(
        leases,
        r"^fairway-placement-1-of-2 +fairway-second-\w+",
        r"^fairway-placement-0-of-2 +fairway-\w+-\w+",
        first=printed,
    )
    await me.node.runs(4)
