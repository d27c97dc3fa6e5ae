"""docs/how-to/hub-side.md: its files are the examples, its examples work, and it knows every reason."""

import os
import re
import shlex
from pathlib import Path

import pytest

import forked
from fairway.providers import document, endpoint
from fairway.providers.forecast import provider as forecast
from fairway.providers.http_scorer import contract
from fairway.providers.http_scorer import provider as http_scorer
from fairway.providers.prometheus import api
from fairway.providers.prometheus import provider as prometheus
from fairway.testing.hub import HubAddress
from providers.tools.publishing import hub_of
from providers.tools.readings import built

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "providers"
PAGE = (ROOT / "docs" / "how-to" / "hub-side.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```yaml\n# (\w+\.yaml)\n(.*?)```", PAGE, re.DOTALL))
PROVIDERS = {
    "prometheus.yaml": "prometheus",
    "scorer.yaml": "http-scorer",
    "static.yaml": "static",
    "forecast.yaml": "forecast",
}
MODULES = (document, endpoint, api, prometheus, contract, http_scorer, forecast)
REASON = re.compile(r"[A-Z][a-z]+([A-Z][A-Za-z]+)+")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def test_providers_page_shows_all_examples() -> None:
    assert FILES.keys() == PROVIDERS.keys()


@pytest.mark.parametrize("file", sorted(PROVIDERS))
def test_providers_page_examples_work(file: str) -> None:
    first, _, rest = (EXAMPLES / file).read_text(encoding="utf-8").partition("\n")
    assert first == f"# fairway provider run {PROVIDERS[file]} --config {file}"
    assert FILES[file] == rest
    options = document.read(EXAMPLES / file).convert(dict)
    made = built(PROVIDERS[file], options, folder=EXAMPLES)
    assert made.scores


async def test_providers_page_output_is_current(fairway_hub: HubAddress) -> None:
    ((command, output),) = re.findall(r"```console\n\$ (fairway .*?)\n(.*?)```", PAGE, re.DOTALL)
    async with hub_of(fairway_hub) as hub:
        await hub.cluster("cluster1", region="north")
        await hub.cluster("cluster2", region="south")
    arguments = [*shlex.split(command)[1:], "--kubeconfig", fairway_hub.kubeconfig]
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    run = forked.run(arguments, cwd=ROOT, env=environment)
    assert run.returncode == 0, run.stderr
    # By night the price is another, which changes no score.
    printed = run.stdout.replace("2.1 EUR/h", "4.2 EUR/h")
    assert TIME.sub("TIME", printed) == TIME.sub("TIME", output)


def test_providers_page_lists_every_reason() -> None:
    _, _, table = PAGE.partition("## Reasons")
    documented = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    there = {
        value
        for module in MODULES
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and REASON.fullmatch(value)
    }
    assert documented == there
