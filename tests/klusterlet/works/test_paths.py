from typing import Any

import pytest

from fairway.klusterlet.works.drift import MISSING, project, removals
from fairway.klusterlet.works.ignored_fields import keep_live_values
from fairway.klusterlet.works.wildcard import matches
from kubewire.api.jsonpath import json_path, json_pointer


def test_ignored_fields_keep_live_values() -> None:
    desired = {
        "spec": {"replicas": 3, "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}
    }
    live = {"spec": {"containers": [{"name": "x"}, {"name": "b", "image": "theirs"}, {"name": "a"}]}}
    keep_live_values(desired, live, [json_path(".spec.replicas"), json_path(".spec.containers[*].image")])
    assert desired == {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "theirs"}]}}


def test_ignored_list_items_are_processed_from_the_end() -> None:
    desired: dict[str, Any] = {"args": ["a", "b", "c"]}
    keep_live_values(desired, {"args": ["x"]}, [json_path(".args[*]")])
    assert desired == {"args": ["x"]}
    desired = {"args": ["a"]}
    keep_live_values(desired, {}, [json_path(".args[0]"), json_pointer("/args")])
    assert desired == {}


def test_share_is_the_specified_part_of_an_object() -> None:
    desired = {"a": 1, "list": [{"name": "x", "v": 1}], "plain": [1], "gone": 1}
    live = {"a": 2, "b": 3, "list": [{"name": "y", "v": 0}, {"name": "x", "v": 9, "w": 1}], "plain": [1, 2]}
    expected = {"a": 2, "list": [{"name": "x", "v": 9}], "plain": [1, 2], "gone": MISSING}
    assert project(desired, live) == expected
    assert project({"list": [{"name": "z"}]}, live) == {"list": [MISSING]}


def test_surplus_data_entries_are_removed() -> None:
    desired = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}}
    live = {"data": {"k": "2", "l": "3"}, "binaryData": {"b": ""}}
    assert removals(desired, live) == {"data": {"l": None}}
    assert removals({**desired, "kind": "Pod"}, {"data": {"l": "3"}}) == {}
    assert removals({"apiVersion": "v1", "kind": "ConfigMap"}, {"data": {"ca.crt": "x"}}) == {}
    token = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "data": {}}
    assert removals(token, {"data": {"token": "x"}}) == {}


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
def test_wildcard_matches_any_part_of_a_name(name: str, pattern: str, fits: bool) -> None:
    assert matches(name, pattern) is fits
