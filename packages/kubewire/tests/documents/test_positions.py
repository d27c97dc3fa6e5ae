import json

from hypothesis import given
from hypothesis import strategies as st

from kubewire.documents.positions import Place, find, parse_path, places_of
from kubewire.documents.reader import json_documents, yaml_documents

YAML = b"""\
a: 1
---
# second
spec:
  taints:
    - key: gpu
      effect: NoSelect
    - {key: x, effect: on}
metadata:
  labels:
    example.com/zone: 1.30
    quoted: "1.30"
"""


def test_field_path_is_split_into_steps() -> None:
    assert parse_path("spec.taints[0].key") == ("spec", "taints", 0, "key")
    assert parse_path("metadata.labels[example.com/zone]") == ("metadata", "labels", "example.com/zone")
    assert parse_path("items[12]") == ("items", 12)
    assert parse_path("") == ()


def test_yaml_places_are_lines_of_the_file() -> None:
    second = list(yaml_documents(YAML))[1]
    places = places_of(YAML, second)
    assert places[("spec",)].line == 4
    assert places[("spec", "taints", 1)].line == 8
    assert places[("spec", "taints", 1, "effect")] == Place(8, "on")
    assert places[("metadata", "labels", "example.com/zone")] == Place(11, "1.30")
    assert places[("metadata", "labels", "quoted")] == Place(12)


def test_missing_field_has_the_place_of_its_nearest_parent() -> None:
    places = places_of(YAML, list(yaml_documents(YAML))[1])
    start = Place(4)
    assert find(places, "spec.taints[0].timeAdded", default=start).line == 6
    assert find(places, "metadata.name", default=start).line == 9
    assert find(places, "status", default=start) == start


def test_json_places_are_lines_of_the_file() -> None:
    text = b'{"kind": "List", "items": [\n{"a": 1},\n{"b": [1,\n 2, {"c": "x\\"}"}],\n "d": {}, "e": []}]}'
    second = list(json_documents(text))[1]
    places = places_of(text, second)
    assert {path: place.line for path, place in places.items()} == {
        ("b",): 3,
        ("b", 0): 3,
        ("b", 1): 4,
        ("b", 2): 4,
        ("b", 2, "c"): 4,
        ("d",): 5,
        ("e",): 5,
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab{}[],:"\\ ', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def paths(value: object, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    places: set[tuple[str | int, ...]] = set()
    if isinstance(value, dict):
        for key, inner in value.items():
            places |= {(*path, key)} | paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            places |= {(*path, index)} | paths(inner, (*path, index))
    return places


@given(st.dictionaries(st.text("abc", max_size=3), values))
def test_every_field_of_json_has_a_place(value: dict[str, object]) -> None:
    text = json.dumps(value, indent=1).encode()
    (document,) = json_documents(text)
    assert set(places_of(text, document)) == paths(value)
