"""`fairway provider run prometheus`, as a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairway.testing.hub import HubAddress
from providers.tools.monitoring import Monitoring
from providers.tools.publishing import condition, hub_of, scores
from rigs.processes import Process

CONFIG = """\
name: monitoring
url: {url}
interval: 1s
scores:
- name: free
  query: process_free
  unit: cores
  scale: {{kind: linear, low: 0, high: 100}}
"""


@pytest.fixture
async def config(monitoring: Monitoring, tmp_path: Path) -> Path:
    for name, value in {"c1": 40, "c2": 75}.items():
        monitoring.exporter.set("process_free", value, cluster=name)
    await monitoring.server.until("process_free", lambda values: len(values) == 2)
    path = tmp_path / "prometheus.yaml"
    path.write_text(CONFIG.format(url=monitoring.server.url))
    return path


def command(config: Path, hub: HubAddress, *more: str) -> list[str]:
    run = [sys.executable, "-m", "fairway", "provider", "run", "prometheus"]
    return [*run, "--config", str(config), "--kubeconfig", str(hub.kubeconfig), *more]


def ran(command: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "COLUMNS": "140", "NO_COLOR": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


async def test_provider_dry_run_prints_publications(config: Path, fairway_hub: HubAddress) -> None:
    async with hub_of(fairway_hub) as hub:
        await hub.cluster("c1")
        await hub.cluster("c2")
        done = ran(command(config, fairway_hub, "--dry-run", "-o", "json"))
        assert done.returncode == 0, done.stderr
        published = {
            item["metadata"]["namespace"]: item["status"]["scores"]
            for item in json.loads(done.stdout)["items"]
        }
        assert published == {"c1": [{"name": "free", "value": 40}], "c2": [{"name": "free", "value": 75}]}
        assert await hub.score("c1", "monitoring-score") is None
        table = ran(command(config, fairway_hub, "--dry-run"))
        assert "free" in table.stdout
        # A cluster that Prometheus does not know.
        await hub.cluster("c3")
        done = ran(command(config, fairway_hub, "--dry-run"))
        assert "ClusterMissing" in done.stdout
        assert "could not read c3: free: no series for this cluster" in done.stderr


async def test_provider_option_error_names_file_and_field(config: Path, fairway_hub: HubAddress) -> None:
    config.write_text(config.read_text().replace("query:", "qery:"))
    done = ran(command(config, fairway_hub, "--dry-run"))
    assert done.returncode == 2
    assert str(config) in done.stderr
    assert "scores[0].qery: is an unknown field; did you mean 'query'?" in done.stderr


async def test_provider_process_publishes_until_sigterm(
    config: Path, fairway_hub: HubAddress, monitoring: Monitoring, tmp_path: Path
) -> None:
    async with hub_of(fairway_hub) as hub:
        await hub.cluster("c1")
        process = Process(command(config, fairway_hub, "--deadline", "120s"), log=tmp_path / "provider.log")
        try:
            score = await hub.until("c1", "monitoring-score", lambda score: scores(score) == {"free": 40})
            assert condition(score) == ("True", "AddOnPlacementScoreUpdated", "free 40 cores")
            assert score.metadata.labels == {
                "app.kubernetes.io/managed-by": "fairway",
                "fairway.dev/provider": "monitoring",
            }
            assert score.status.validUntil is not None
            # A cluster that joins is scored without waiting for an interval of minutes.
            await hub.cluster("c2")
            await hub.until("c2", "monitoring-score", lambda score: scores(score) == {"free": 75})
        finally:
            await process.stop(grace=120)
        assert process.status == 0, process.tail()
