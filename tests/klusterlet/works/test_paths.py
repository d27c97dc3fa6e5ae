from typing import Any

import pytest

from fairway.klusterlet.works.drift import MISSING, share, surplus
from fairway.klusterlet.works.paths import (
    PathError,
    find,
    jq_path,
    json_path,
    json_pointer,
    left_alone,
)
from fairway.klusterlet.works.wildcard import matches

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
        (".spec.missing[3].x", []),
        (".spec.containers.image", []),
    ],
)
def test_json_paths(path: str, values: list[Any]) -> None:
    assert [value for _, value in find(json_path(path), POD)] == values


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/spec/containers/1/image", ["2"]),
        ("/metadata/annotations/a.b~1c", ["dotted"]),
        ("/spec/containers/9/image", []),
        ("/spec/containers/x", []),
    ],
)
def test_json_pointers(path: str, values: list[Any]) -> None:
    assert [value for _, value in find(json_pointer(path), POD)] == values


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
def test_paths_of_jq(path: str, values: list[Any]) -> None:
    assert [value for _, value in find(jq_path(path), POD)] == values


@pytest.mark.parametrize("path", ["", "{}", ".a[", ".a[?(@.b==)]", ".a..b", ".a[?(@.b==x y)]", "." * 5000])
def test_what_is_no_json_path(path: str) -> None:
    with pytest.raises(PathError, match="cannot be read as"):
        json_path(path)


@pytest.mark.parametrize("path", ["", "a", "spec/x"])
def test_what_is_no_json_pointer(path: str) -> None:
    with pytest.raises(PathError, match="cannot be read as a JSON pointer"):
        json_pointer(path)


@pytest.mark.parametrize("path", ["", "map(.a)", ".a | keys", ".a, .b", "..", ".a | select(.b > 3)"])
def test_what_of_jq_is_not_understood(path: str) -> None:
    with pytest.raises(PathError, match="cannot be read as"):
        jq_path(path)


def test_fields_are_left_as_they_are_where_they_are() -> None:
    desired = {
        "spec": {"replicas": 3, "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}
    }
    live = {"spec": {"containers": [{"name": "x"}, {"name": "b", "image": "theirs"}, {"name": "a"}]}}
    left_alone(desired, live, [json_path(".spec.replicas"), json_path(".spec.containers[*].image")])
    assert desired == {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "theirs"}]}}


def test_items_of_plain_lists_are_left_alone_from_the_end() -> None:
    desired: dict[str, Any] = {"args": ["a", "b", "c"]}
    left_alone(desired, {"args": ["x"]}, [json_path(".args[*]")])
    assert desired == {"args": ["x"]}
    desired = {"args": ["a"]}
    left_alone(desired, {}, [json_path(".args[0]"), json_pointer("/args")])
    assert desired == {}


def test_the_share_of_an_object_a_manifest_speaks_about() -> None:
    desired = {"a": 1, "list": [{"name": "x", "v": 1}], "plain": [1], "gone": 1}
    live = {"a": 2, "b": 3, "list": [{"name": "y", "v": 0}, {"name": "x", "v": 9, "w": 1}], "plain": [1, 2]}
    assert share(desired, live) == {"a": 2, "list": [{"name": "x", "v": 9}], "plain": [1, 2], "gone": MISSING}
    assert share({"list": [{"name": "z"}]}, live) == {"list": [MISSING]}


def test_data_nobody_asked_for() -> None:
    desired = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}}
    assert surplus(desired, {"data": {"k": "2", "l": "3"}, "binaryData": {"b": ""}}) == {"data": {"l": None}}
    assert surplus({**desired, "kind": "Pod"}, {"data": {"l": "3"}}) == {}
    assert surplus({"apiVersion": "v1", "kind": "ConfigMap"}, {"data": {"ca.crt": "x"}}) == {}
    token = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "data": {}}
    assert surplus(token, {"data": {"token": "x"}}) == {}


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("web", "web", True),
        ("web", "w*", True),
        ("web", "*", True),
        ("", "*", True),
        ("web-1-a", "w*-*a", True),
        ("web", "w*x", False),
        ("ab", "ab*b", False),
        ("aXbXc", "a*b*c", True),
        ("abc", "a.c", False),
        ("a" * 200, "*a" * 60 + "*b", False),
    ],
)
def test_names_with_stars(name: str, pattern: str, fits: bool) -> None:
    assert matches(name, pattern) is fits
