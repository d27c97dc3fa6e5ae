"""Patches of built-in kinds, compared with recorded results of a real kube-apiserver."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from recorded import kind, recording, unordered

from every import every
from kubehub.patches import jsonpatch, mergepatch, strategic
from kubehub.resource import Document
from kubehub.schema import Node
from kubehub.status import Refusal

HEADER, CASES = recording("patches.jsonl.gz")
DO: dict[str, Callable[[Document, Any, Node], Document]] = {
    "json": lambda document, patch, _: jsonpatch.apply(document, patch),
    "merge": lambda document, patch, _: mergepatch.apply(document, patch),
    "strategic": strategic.apply,
}


@cache
def node_of(name: str) -> Node:
    return kind(name).node


def named(case: Document) -> str:
    return f"{case['do']}-{case['kind']}"


def test_recorded_patch_answers_cover_all_outcomes() -> None:
    assert HEADER["server"] == "kube-apiserver v1.36.3"
    assert {case["do"] for case in CASES} == set(DO)
    assert {case["refusal"]["code"] for case in CASES if "refusal" in case} >= {400, 422, 500}


@every("case", [c for c in CASES if "result" in c], ids=named)
def test_strategic_patch_matches_recorded_answers(case: Document) -> None:
    assert DO[case["do"]](case["live"], case["patch"], node_of(case["kind"])) == case["result"]


@every("case", [c for c in CASES if "refusal" in c], ids=named)
def test_refused_strategic_patch_matches_recorded_answers(case: Document) -> None:
    with pytest.raises(Refusal) as refused:
        DO[case["do"]](case["live"], case["patch"], node_of(case["kind"]))
    assert unordered(refused.value.document()) == unordered(case["refusal"])
