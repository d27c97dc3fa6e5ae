"""Selectors in queries: matches and refusals."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehub import builtin, selectors
from kubehub.resource import Resource
from kubehub.status import Refusal

LABELS = {"tier": "gold", "n": "5", "example.com/zone": "a"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("tier", True),
        ("!tier", False),
        ("!none", True),
        ("tier=gold", True),
        ("tier==gold", True),
        ("tier = gold", True),
        ("tier!=gold", False),
        ("none!=x", True),
        ("none=", False),
        ("tier in (silver, gold)", True),
        ("tier notin (gold)", False),
        ("none notin (gold)", True),
        ("none in ()", False),
        ("n>4", True),
        ("n<5", False),
        ("tier>4", False),
        ("example.com/zone=a,tier", True),
        ("example.com/zone=a,tier=bronze", False),
    ],
)
def test_label_selector_matches(text: str, selected: bool) -> None:
    assert selectors.parse_labels(text).matches(LABELS) is selected


@pytest.mark.parametrize(
    "text", ["a===b", "a in b", "a in (b", ",", "a,,b", "a b", "-a", "a=-b", "a>x", "=", "!"]
)
def test_invalid_label_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        selectors.parse_labels(text)
    assert refused.value.code == 400


@given(st.text())
def test_any_selector_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(Refusal):
        assert selectors.parse_labels(text).matches(LABELS) in (True, False)


def pods() -> Resource:
    return next(resource for resource in builtin.resources() if resource.key == "pods")


def test_field_selector_matches() -> None:
    document = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n", "hostNetwork": True},
        "status": {"phase": "Running"},
    }
    for text, selected in (
        ("metadata.name=p", True),
        ("metadata.name==p,spec.nodeName=n", True),
        ("metadata.name!=p", False),
        ("status.phase=Failed", False),
        ("spec.hostNetwork=true", True),
        ("status.podIP=", True),
    ):
        assert selectors.parse_fields(text, pods()).matches(document) is selected, text
    assert selectors.parse_fields("metadata.name=p,status.phase=Running", pods()).name == "p"
    assert selectors.parse_fields("metadata.name!=p", pods()).name == ""


@pytest.mark.parametrize("text", ["spec.containers=x", "nonsense"])
def test_unsupported_field_selector_is_rejected(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        selectors.parse_fields(text, pods())
    assert refused.value.code == 400


def test_selector_object_matches() -> None:
    assert not selectors.matches_selector(None, LABELS)
    assert selectors.matches_selector({}, LABELS)
    assert selectors.matches_selector({"matchLabels": {"tier": "gold"}}, LABELS)
    assert not selectors.matches_selector(
        {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}, LABELS
    )
