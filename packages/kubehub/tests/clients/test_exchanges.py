"""Every hub gives the recorded answers of a real kube-apiserver, field by field.

To record them again (they name the version of the server):

    python -m pytest packages/kubehub/tests/clients/test_exchanges.py -m kube --record
"""

import gzip
import json
from pathlib import Path

import pytest
from clients.conftest import Suite
from clients.exchanges import Script, recorded
from clients.scripts import SCRIPTS as COMMON_SCRIPTS
from clients.scripts import WIDGETS
from clients.talk import Talk, context, described, established
from clients.write_scripts import SCRIPTS as WRITE_SCRIPTS

GOLDEN = Path(__file__).parents[4] / "tests" / "golden" / "exchanges.jsonl.gz"
SCRIPTS = [*COMMON_SCRIPTS, *WRITE_SCRIPTS]


async def test_recorded_exchanges_match_the_scripts() -> None:
    known = recorded(_lines())
    assert {script.name: len(script.calls) for script in SCRIPTS} == {k: len(v) for k, v in known.items()}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name.replace(" ", "-"))
async def test_responses_match_those_of_kubernetes(
    hub: Suite, script: Script, namespace: str, request: pytest.FixtureRequest
) -> None:
    url, trust, token = context(hub.kubeconfig)
    async with Talk(url=url, context=trust, token=token) as talk:
        await talk.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=WIDGETS)
        await established(talk, WIDGETS["metadata"]["name"])
        answers = await talk.run(script, namespace=namespace)
        if request.config.getoption("--record") and hub.kind == "real":
            _, version = await talk.call("GET", "/version")
            _record(script.name, answers, version["gitVersion"])
    expected = recorded(_lines())[script.name]
    for call, answer, wanted in zip(script.calls, answers, expected, strict=True):
        assert answer == wanted, described(call)


def _lines() -> list[str]:
    if not GOLDEN.exists():
        return []
    with gzip.open(GOLDEN, "rt") as file:
        return file.read().splitlines()


def _record(name: str, answers: list[dict[str, object]], version: str) -> None:
    kept = recorded(_lines()) | {name: answers}
    known = [script.name for script in SCRIPTS]
    lines = [json.dumps({"recorded from": f"kube-apiserver {version}"})]
    lines += [json.dumps({"script": n, "answers": kept[n]}, sort_keys=True) for n in known if n in kept]
    with GOLDEN.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        file.write(("\n".join(lines) + "\n").encode())
