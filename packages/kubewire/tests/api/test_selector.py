"""Selectors, compared with recorded results of Kubernetes (apimachinery 0.36.3) and with a simple implementation."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from every import every
from kubewire.api.naming import BAD_KEY_NAME
from kubewire.api.selector import (
    SELECT_EVERYTHING,
    SELECT_NOTHING,
    VALUES_NEEDED,
    VALUES_UNWANTED,
    LabelSelector,
    LabelSelectorRequirement,
    Requirement,
    SelectorError,
    compile_requirements,
    compile_selector,
    quote,
)

RECORDED = Path(__file__).parent / "recorded" / "selectors.jsonl"


@every("row", [json.loads(line) for line in RECORDED.read_text().splitlines()])
def test_selector_matches_recorded_answers(row: dict[str, Any]) -> None:
    selector = msgspec.convert(row["selector"], LabelSelector | None)
    if row["error"] is not None:
        with pytest.raises(SelectorError) as caught:
            compile_selector(selector)
        assert str(caught.value) == row["error"]
    else:
        compiled = compile_selector(selector)
        assert compiled.matches(row["labels"]) is row["matches"]
        assert (compiled.explain(row["labels"]) is None) is row["matches"]


keys = st.sampled_from(["env", "region", "tier"])
values = st.sampled_from(["a", "b", "c", ""])
requirements = st.builds(
    lambda key, operator, chosen: LabelSelectorRequirement(
        key=key, operator=operator, values=tuple(chosen) if operator in ("In", "NotIn") else ()
    ),
    keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(values, min_size=1, max_size=3),
)


@given(
    st.lists(requirements, max_size=3),
    st.dictionaries(keys, values, max_size=2),
    st.dictionaries(keys, values),
)
def test_selector_operators_match_labels(
    expressions: list[LabelSelectorRequirement], match_labels: dict[str, str], labels: dict[str, str]
) -> None:
    def met(expression: LabelSelectorRequirement) -> bool:
        match expression.operator:
            case "In":
                return expression.key in labels and labels[expression.key] in expression.values
            case "NotIn":
                return expression.key not in labels or labels[expression.key] not in expression.values
            case "Exists":
                return expression.key in labels
            case _:
                return expression.key not in labels

    selector = compile_selector(LabelSelector(matchExpressions=tuple(expressions), matchLabels=match_labels))
    wanted = all(map(met, expressions)) and all(
        labels.get(key) == value for key, value in match_labels.items()
    )
    assert selector.matches(labels) is wanted


def test_missing_selector_selects_nothing_and_empty_one_everything() -> None:
    assert compile_selector(None) is SELECT_NOTHING
    assert compile_selector(LabelSelector()) == SELECT_EVERYTHING
    assert not SELECT_NOTHING.matches({})
    assert SELECT_EVERYTHING.matches({})
    assert SELECT_NOTHING.explain({}) == "no label selector is given, so nothing is selected"


def test_selector_requirements_keep_their_order() -> None:
    selector = LabelSelector(
        matchLabels={"z": "1", "a": "2"},
        matchExpressions=(LabelSelectorRequirement(key="m", operator="Exists"),),
    )
    assert compile_selector(selector).requirements == (
        Requirement("a", "In", frozenset({"2"})),
        Requirement("z", "In", frozenset({"1"})),
        Requirement("m", "Exists"),
    )


@pytest.mark.parametrize(
    ("operator", "chosen", "labels", "words"),
    [
        ("In", ("prod", "stage"), {"env": "dev"}, 'claim "env" is "dev", needs one of "prod", "stage"'),
        ("In", ("prod",), {}, 'claim "env" is missing, needs "prod"'),
        ("NotIn", ("dev",), {"env": "dev"}, 'claim "env" is "dev", must not be "dev"'),
        ("NotIn", ("dev", "qa"), {"env": "qa"}, 'claim "env" is "qa", must not be one of "dev", "qa"'),
        ("Exists", (), {}, 'claim "env" is missing'),
        ("DoesNotExist", (), {"env": ""}, 'claim "env" is "", must be absent'),
        ("Exists", (), {"env": ""}, None),
    ],
)
def test_selector_explains_the_first_unmet_requirement(
    operator: str, chosen: tuple[str, ...], labels: dict[str, str], words: str | None
) -> None:
    selector = compile_requirements([LabelSelectorRequirement(key="env", operator=operator, values=chosen)])
    assert selector.explain(labels, noun="claim") == words


@pytest.mark.parametrize(
    ("requirement", "refusal"),
    [
        (LabelSelectorRequirement(key="-", operator="Near"), '"Near" is not a valid label selector operator'),
        (LabelSelectorRequirement(key="a", operator="In"), f"values: Invalid value: null: {VALUES_NEEDED}"),
        (
            LabelSelectorRequirement(key="a", operator="Exists", values=("<b>",)),
            f'[values: Invalid value: ["\\u003cb\\u003e"]: {VALUES_UNWANTED}, ',
        ),
        (LabelSelectorRequirement(key="-", operator="Exists"), f'key: Invalid value: "-": {BAD_KEY_NAME}'),
    ],
)
def test_invalid_selector_is_rejected_with_kubernetes_message(
    requirement: LabelSelectorRequirement, refusal: str
) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_requirements([requirement])
    assert str(caught.value).startswith(refusal)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("é", '"é"'),
        ('a"b\\', r'"a\"b\\"'),
        ("\n\x00\x7f", r'"\n\x00\x7f"'),
        ("\u200b\U000e0001", r'"\u200b\U000e0001"'),
    ],
)
def test_quote_matches_go(text: str, quoted: str) -> None:
    assert quote(text) == quoted
