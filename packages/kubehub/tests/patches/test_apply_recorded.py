"""Field ownership and server-side apply, compared with recorded answers of a real kube-apiserver."""

from functools import cache

import pytest
from recorded import Kind, ignored, kind, recording, unordered

from every import every
from kubehub.patches import managed_fields
from kubehub.patches.apply import apply
from kubehub.resource import Document
from kubehub.status import Refusal

HEADER, CASES = recording("apply.jsonl.gz")


@cache
def kind_of(name: str) -> Kind:
    return kind(name, HEADER["schema"])


def named(case: Document) -> str:
    verb = "create" if case["live"] is None else case["do"]
    return "-".join(filter(None, [verb, case["kind"], case["subresource"], case["manager"]]))


def cases(do: str) -> list[Document]:
    return [case for case in CASES if case["do"] == do]


def test_recorded_apply_answers_cover_all_outcomes() -> None:
    assert HEADER["server"] == "kube-apiserver v1.36.3"
    assert {case["do"] for case in CASES} == {"apply", "update"}
    assert {"Widget", "Deployment", "Pod", "Service", "ConfigMap"} <= {case["kind"] for case in CASES}
    assert {case["refusal"]["code"] for case in CASES if "refusal" in case} == {409, 500}


def applied(case: Document) -> Document:
    of = kind_of(case["kind"])
    return apply(
        case["live"],
        case["applied"],
        manager=case["manager"],
        force=case["force"],
        api_version=case["apiVersion"],
        kind=case["kind"],
        time=case["time"],
        node=of.node,
        subresource=case["subresource"],
        ignored=ignored(case),
        blank=of.blank,
    )


@every("case", [c for c in cases("apply") if "refusal" not in c], ids=named)
def test_apply_matches_recorded_answers(case: Document) -> None:
    result = applied(case)
    if "result" in case:
        assert result == case["result"]
    else:
        assert result["metadata"].get("managedFields") == case["managedFields"]


@every("case", [c for c in cases("apply") if "refusal" in c], ids=named)
def test_refused_apply_matches_recorded_answers(case: Document) -> None:
    with pytest.raises(Refusal) as refused:
        applied(case)
    assert unordered(refused.value.document()) == unordered(case["refusal"])


@every("case", cases("update"), ids=named)
def test_update_matches_recorded_managed_fields(case: Document) -> None:
    of, new = kind_of(case["kind"]), case["sent"]
    managed_fields.update(
        case["live"],
        new,
        manager=case["manager"],
        api_version=case["apiVersion"],
        time=case["time"],
        node=of.node,
        subresource=case["subresource"],
        ignored=ignored(case),
        blank=of.blank,
    )
    assert new["metadata"].get("managedFields") == case["managedFields"]
