"""JSONPaths of printer columns and scales."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.hub.printing import jsonpath

DOCUMENT: dict[str, Any] = {
    "metadata": {"name": "x", "annotations": {"a.b/c": "1"}},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Old", "status": "False"}],
        "list": [1, 2, 3],
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["x"]),
        ("metadata.name", ["x"]),
        ("{.metadata.name}", ["x"]),
        ("$.metadata.name", ["x"]),
        (".metadata.none", []),
        (".metadata.name.deeper", []),
        (".metadata.annotations['a.b/c']", ["1"]),
        (r".metadata.annotations.a\.b/c", ["1"]),
        (".status.list[1]", [2]),
        (".status.list[-1]", [3]),
        (".status.list[9]", []),
        (".status.list[*]", [1, 2, 3]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        (".status.conditions[?(@.n==1)].type", ["Ready"]),
        (".status.conditions[?(@.n)].type", ["Ready"]),
        (".status.conditions[*].type", ["Ready", "Old"]),
    ],
)
def test_jsonpath_finds_values(path: str, found: list[Any]) -> None:
    assert jsonpath.compiled(path)(DOCUMENT) == found


@pytest.mark.parametrize("path", [".a[", ".a[?(", ".a[?(@.b==)]", "..", ".a[x]"])
def test_invalid_jsonpath_is_rejected(path: str) -> None:
    with pytest.raises(jsonpath.PathError):
        jsonpath.compiled(path)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(jsonpath.PathError):
        assert isinstance(jsonpath.compiled(text)(DOCUMENT), list)
