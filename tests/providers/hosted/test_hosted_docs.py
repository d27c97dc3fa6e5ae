"""The page about hosted clusters matches the code."""

import re
from pathlib import Path

import yaml

from fairway.api.kinds import decode
from fairway.api.placement import Placement
from fairway.providers.hosted import HostedClusters
from fairway.providers.hosted.claims import NAMES
from fairway.providers.hosted.options import HostedOptions
from fairway.providers.hosted.sizing import GIBIBYTE, PROFILES
from fairway.testing.hub import embedded_hub
from kubewire.client import Client

PAGE = (Path(__file__).parents[3] / "docs/how-to/hosted-clusters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def column(heading: str) -> set[str]:
    """Names in the first column of a table."""
    table = PAGE.split(heading)[1].split("\n\n")[0]
    return {name for line in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])}


async def test_hosted_page_lists_all_scores(tmp_path: Path) -> None:
    async with embedded_hub(definitions=()) as hub:
        hub.certificates.write_kubeconfig(tmp_path / "kubeconfig", server=hub.url)
        async with Client.from_kubeconfig(tmp_path / "kubeconfig") as client:
            provider = HostedClusters(client)
    assert column("| score | raw value | score |") == {score.name for score in provider.scores}


def test_hosted_page_lists_all_claims() -> None:
    assert column("| ClusterClaim | value |") == set(NAMES)


def test_hosted_page_lists_sizes() -> None:
    rows = {
        f"| `{profile.name}` | {profile.cpu:g} | {profile.memory / GIBIBYTE:g} GiB"
        f" | {profile.pods} | {profile.replicas} |"
        for profile in PROFILES
    }
    assert rows <= set(PAGE.splitlines())


def test_hosted_page_options_are_valid() -> None:
    (options,) = (block for block in BLOCKS if block.startswith("maximum"))
    read = HostedOptions.read(yaml.safe_load(options), environment={})
    assert {profile.score for profile in read.profiles} >= {"hcpSlotsHuge", "hcpSlotsLab"}
    assert set(yaml.safe_load(options)) == {
        "maximum", "threshold", "claims", "profiles", "baseline", "prometheus", "interval",
    }  # fmt: skip


def test_hosted_page_placements_are_valid() -> None:
    shown = [block for block in BLOCKS if block.startswith("apiVersion")]
    assert len(shown) == 2
    assert all(isinstance(decode(yaml.safe_load(example)), Placement) for example in shown)
