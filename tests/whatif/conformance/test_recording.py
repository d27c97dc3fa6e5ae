import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from fairway.whatif.conformance import quantity, recording
from fairway.whatif.conformance.differences import differences
from fairway.whatif.conformance.recording import ConformanceError, Result, Row, open_recording

GOLDEN = Path(__file__).parents[2] / "golden"


def write(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def echo(rows: Iterable[Row], /) -> Iterator[Result]:
    """Return the result that the row contains."""
    for row in rows:
        yield Result(name=row["name"], differences=tuple(differences(row["expected"], row["got"])))


def test_every_recorded_quantity_matches() -> None:
    results = list(open_recording(str(GOLDEN / "quantity.jsonl")).run())
    assert len(results) == 134
    assert [result for result in results if not result.passed] == []


def test_wrong_quantity_is_a_difference(tmp_path: Path) -> None:
    rows = [{"text": "1Ki", "valid": True, "float": 1000}, {"text": "abc", "valid": True, "float": 1}]
    file = write(tmp_path / "x", *rows)
    first, second = open_recording(file).run()
    assert [(d.path, d.expected, d.got) for d in first.differences] == [
        ("float", "1000.0", "1024.0"),
        ("quick float", "1000.0", "1024.0"),
    ]
    assert ("valid", "true", "false") in [(d.path, d.expected, d.got) for d in second.differences]


def test_every_recorded_cel_expression_matches() -> None:
    results = list(open_recording(str(GOLDEN / "cel.jsonl")).run())
    assert len(results) == 204
    assert [result for result in results if not result.passed] == []


CLUSTERS = {
    "clusters": [
        {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": "c1", "labels": {"a": "b"}},
        }
    ],
    "scores": [
        {"metadata": {"name": "s", "namespace": "c1"}, "status": {"scores": [{"name": "x", "value": 7}]}}
    ],
}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"expr": "1 + 1", "compile": "ok", "type": "int", "results": [{"value": 2, "cost": 1}]}, []),
        ({"expr": "1 + 1", "compile": "ok", "type": "bool", "results": [{"value": 2, "cost": 1}]}, ["type"]),
        (
            {"expr": "1 + 1", "compile": "ok", "type": "int", "results": [{"value": 3, "cost": 1}]},
            ["results[c1].value"],
        ),
        (
            {"expr": "1 + 1", "compile": "ok", "type": "int", "results": [{"value": 2, "cost": 9}]},
            ["results[c1].cost"],
        ),
        (
            {"expr": "1 + 1", "compile": "ok", "type": "int", "results": [{"error": "e", "cost": 1}]},
            ["results[c1]"],
        ),
        (
            {"expr": "1/0 > 1", "compile": "ok", "type": "bool", "results": [{"value": True, "cost": 2}]},
            ["results[c1]"],
        ),
        (
            {
                "expr": "1/0 > 1",
                "compile": "ok",
                "type": "bool",
                "results": [{"error": "other words", "cost": 2}],
            },
            [],
        ),
        (
            {
                "expr": "[1]",
                "compile": "ok",
                "type": "list(int)",
                "results": [{"value": "?", "opaque": True, "cost": 10}],
            },
            [],
        ),
        ({"expr": "1 + 1", "compile": "error", "message": "ERROR: <input>:1:3: no"}, ["compile"]),
        ({"expr": "1 + true", "compile": "ok", "type": "int", "results": []}, ["compile"]),
        ({"expr": "1 + true", "compile": "error", "message": "ERROR: <input>:1:3: other words"}, []),
        ({"expr": "1 + true", "compile": "error", "message": "ERROR: <input>:1:1: here"}, ["message"]),
        (
            {
                "expr": 'managedCluster.scores("s")[0].value == 7',
                "compile": "ok",
                "type": "bool",
                "results": [{"value": True, "cost": None}],
            },
            [],
        ),
    ],
)
def test_difference_in_each_recorded_field_of_an_expression_is_found(
    tmp_path: Path, row: Row, expected: list[str]
) -> None:
    (result,) = open_recording(write(tmp_path / "x", CLUSTERS, row)).run()
    assert [difference.path for difference in result.differences] == expected


def test_crash_of_the_implementation_is_one_failed_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": text, "valid": True, "float": 1} for text in ("1", "2")]

    def crash(text: str) -> Row:
        if text == "1":
            raise KeyError("deep inside")
        return {"valid": True, "float": 1, "quick float": 1}

    monkeypatch.setattr(quantity, "_answer", crash)
    first, second = open_recording(write(tmp_path / "x", *rows)).run()
    assert [difference.got for difference in first.differences] == ["KeyError: 'deep inside'"]
    assert second.passed


def test_recording_family_is_detected_by_content(tmp_path: Path) -> None:
    file = tmp_path / "placement.yaml"
    file.write_bytes(gzip.compress((GOLDEN / "quantity.jsonl").read_bytes()))
    recording = open_recording(str(file))
    assert (recording.family, len(recording)) == ("quantity", 134)


@pytest.mark.parametrize(
    ("row", "family"),
    [
        ({"name": "x", "objects": [], "schedule": [], "expected": []}, "placement"),
        ({"clusters": [], "scores": []}, "cel"),
        ({"text": "1", "valid": True}, "quantity"),
        ({"pod": {}, "requests": {}}, "pod-requests"),
        ({"case": {}, "expected": {}}, "pod-scheduling"),
    ],
)
def test_first_row_identifies_the_recording_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row, family: str
) -> None:
    monkeypatch.setattr(recording, "echo", echo, raising=False)
    monkeypatch.setitem(recording.RUNNERS, family, "fairway.whatif.conformance.recording:echo")
    assert open_recording(write(tmp_path / "x", row)).family == family


def test_recording_family_without_runner_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(recording.RUNNERS, "pod-requests", raising=False)
    with pytest.raises(ConformanceError, match="pod-requests: this version has no implementation to check"):
        open_recording(write(tmp_path / "x", {"pod": {}, "requests": {}}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no recorded results"),
        (b"\n \n", "contains no recorded results"),
        (b"hello\n", "x:1: not a JSON object"),
        (b"[1]\n", "x:1: not a JSON object"),
        (b'{"a":' * 100_000, "x:1: not a JSON object: nested too deeply"),
        (b'{"a": 1}\n', r"x:1: not a recording of a known family \(placement, cel, "),
        (b"\x1f\x8bxx", "cannot be read"),
    ],
)
def test_invalid_recording_is_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(ConformanceError, match=message):
        open_recording(str(file))


def test_missing_recording_is_rejected() -> None:
    with pytest.raises(ConformanceError, match=r"nowhere: cannot be read: No such file"):
        open_recording("nowhere")


def test_devices_and_directories_are_rejected_unread(tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match=r"/dev/zero: cannot be read: it is a device, not a file"):
        open_recording("/dev/zero")
    with pytest.raises(ConformanceError, match="it is a directory; name the files in it"):
        open_recording(str(tmp_path))


def test_recording_that_unpacks_to_too_much_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "large.gz"
    file.write_bytes(gzip.compress(b" " * 4096))
    monkeypatch.setattr(recording, "MOST_BYTES", 4095)
    with pytest.raises(ConformanceError, match="more than 4,095 bytes once unpacked"):
        open_recording(str(file))


def test_invalid_line_of_recording_is_named(tmp_path: Path) -> None:
    good = {"text": "1", "valid": True, "float": 1}
    with pytest.raises(ConformanceError, match=":2: the row has no 'valid'"):
        list(open_recording(write(tmp_path / "x", good, {"text": "1"})).run())
    with pytest.raises(ConformanceError, match=":2: not a JSON object"):
        list(open_recording(write(tmp_path / "x", good, [])).run())
    deep = write(tmp_path / "x", good)
    with Path(deep).open("ab") as stream:
        stream.write(b'{"a":' * 100_000)
    with pytest.raises(ConformanceError, match=":2: not a JSON object: nested too deeply"):
        list(open_recording(deep).run())
