"""JSONPaths of printer columns, scales and feedback rules; JSON pointers and jq paths of ignored fields."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewire.api import jsonpath
from kubewire.api.jsonpath import PathError, find, jq_path, json_path, json_pointer

POD: dict[str, Any] = {
    "metadata": {"annotations": {"a.b/c": "dotted", "x": "plain"}},
    "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2", "n": 5}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Odd", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.containers[0].image", ["1"]),
        ("{.spec.containers[*].image}", ["1", "2"]),
        ("$.spec.containers[-1].name", ["b"]),
        ("spec.containers[1].n", [5]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.containers[?(@.n==5)].name", ["b"]),
        (".spec.containers[?(@.n)].name", ["b"]),
        (r".metadata.annotations.a\.b/c", ["dotted"]),
        (".metadata.annotations['a.b/c']", ["dotted"]),
        (".metadata.annotations.*", ["dotted", "plain"]),
        (".spec.containers[9].name", []),
        (".spec.missing[3].x", []),
        (".spec.containers.image", []),
    ],
)
def test_json_path_selects_values(path: str, values: list[Any]) -> None:
    assert jsonpath.values(json_path(path), POD) == values


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/spec/containers/1/image", ["2"]),
        ("/metadata/annotations/a.b~1c", ["dotted"]),
        ("/spec/containers/9/image", []),
        ("/spec/containers/x", []),
    ],
)
def test_json_pointer_selects_values(path: str, values: list[Any]) -> None:
    assert jsonpath.values(json_pointer(path), POD) == values


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.containers[].image", ["1", "2"]),
        ('.spec.containers[] | select(.name == "b") | .image', ["2"]),
        ('.spec.containers[] | select(.name != "b").image', ["1"]),
        (".spec.containers[] | select(.n) | .name", ["b"]),
        ('.metadata.annotations["a.b/c"]', ["dotted"]),
        ('.metadata.annotations."x"', ["plain"]),
    ],
)
def test_jq_path_selects_values(path: str, values: list[Any]) -> None:
    assert jsonpath.values(jq_path(path), POD) == values


@pytest.mark.parametrize(
    "path", ["", "{}", ".a[", ".a[?(@.b==)]", ".a..b", ".a[?(@.b==x y)]", ".a[x]", ".a b", "." * 5000]
)
def test_invalid_json_path_is_rejected(path: str) -> None:
    with pytest.raises(PathError, match="is not a"):
        json_path(path)


@pytest.mark.parametrize("path", ["", "a", "spec/x"])
def test_invalid_json_pointer_is_rejected(path: str) -> None:
    with pytest.raises(PathError, match="is not a JSON pointer"):
        json_pointer(path)


@pytest.mark.parametrize("path", ["", "map(.a)", ".a | keys", ".a, .b", "..", ".a | select(.b > 3)"])
def test_unsupported_jq_expression_is_rejected(path: str) -> None:
    with pytest.raises(PathError, match="is not a"):
        jq_path(path)


def test_find_returns_the_place_of_each_value() -> None:
    assert find(json_path(".spec.containers[-1].n"), POD) == [(("spec", "containers", 1, "n"), 5)]
    assert [place for place, _ in find(jq_path('.spec.containers[] | select(.name == "b")'), POD)] == [
        ("spec", "containers", 1)
    ]


@given(st.text())
def test_any_text_is_a_json_path_or_rejected(text: str) -> None:
    with suppress(PathError):
        assert isinstance(jsonpath.values(json_path(text), POD), list)
