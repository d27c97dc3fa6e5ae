import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairway.api.cluster import ManagedCluster
from fairway.api.placement import Placement
from fairway.cli.errors import InputProblemsError, Problem
from fairway.cli.files.loader import DUPLICATE_REMEDY, NO_CLUSTER, NO_NAME, NO_OBJECTS, LoadedObjects, load
from fairway.cli.main import run
from fairway.simulation.synthetic import generate

EXAMPLES = Path(__file__).parents[3] / "examples" / "fleet"
PLACEMENT = """\
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata:
  name: web
  namespace: ns1
"""
CLUSTER = """\
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata:
  name: c1
  labels: {a: b}
"""


def loaded(tmp_path: Path, text: str | bytes, name: str = "x.yaml") -> LoadedObjects:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load([str(file)])


def problems(tmp_path: Path, text: str | bytes, name: str = "x.yaml") -> tuple[Problem, ...]:
    with pytest.raises(InputProblemsError) as caught:
        loaded(tmp_path, text, name)
    for problem in caught.value.problems:
        assert problem.file == str(tmp_path / name)
    return caught.value.problems


def problem(tmp_path: Path, text: str | bytes, name: str = "x.yaml") -> Problem:
    (only,) = problems(tmp_path, text, name)
    return only


def test_loaded_objects_are_typed_with_file_and_line(tmp_path: Path) -> None:
    objects = loaded(tmp_path, f"{CLUSTER}---\n---\n# a comment\n{PLACEMENT}spec: {{numberOfClusters: 2}}\n")
    (cluster,) = objects.of(ManagedCluster)
    (placement,) = objects.of(Placement)
    assert cluster.metadata.labels == {"a": "b"}
    assert placement.spec.numberOfClusters == 2
    origin = objects.objects[1].origin
    assert (origin.document, origin.line, str(origin)) == (3, 9, f"{tmp_path / 'x.yaml'}:9")


def test_example_fleet_loads() -> None:
    objects = load([str(EXAMPLES)])
    assert len(objects.of(ManagedCluster)) == 8
    assert {placement.metadata.name for placement in objects.of(Placement)} >= {"least-hosted", "placement"}
    assert objects.ignored == {}


@pytest.mark.parametrize("name", ["x.json", "x.yaml", "x.txt", "x.json.gz"])
def test_loader_expands_lists(tmp_path: Path, name: str) -> None:
    documents = list(generate(clusters=10, seed=1))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=1).encode()
    objects = loaded(tmp_path, gzip.compress(text) if name.endswith(".gz") else text, name)
    assert len(objects) == len(documents)
    lines = [loaded_object.origin.line for loaded_object in objects]
    assert lines == sorted(lines)
    assert text.splitlines()[lines[5] - 1].strip() == b"{"


def test_items_of_a_yaml_list_have_their_lines(tmp_path: Path) -> None:
    item = "".join(f"  {line}\n" for line in CLUSTER.splitlines())
    second = item.replace("c1", "c2")
    text = f"kind: ManagedClusterList\napiVersion: v1\nitems:\n- {item[2:]}- {second[2:]}"
    assert [loaded_object.origin.line for loaded_object in loaded(tmp_path, text)] == [4, 9]


def test_loader_reads_json_lines(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(document) for document in generate(clusters=3, seed=1))
    assert len(loaded(tmp_path, lines, "x.jsonl").of(ManagedCluster)) == 3


def test_loader_reads_yaml_that_begins_like_json(tmp_path: Path) -> None:
    text = "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: a}}"
    assert len(loaded(tmp_path, text)) == 1


def test_loader_counts_objects_of_other_kinds(tmp_path: Path) -> None:
    others = "".join(
        f"---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\n" for kind in ("Namespace", "Secret")
    )
    assert loaded(tmp_path, CLUSTER + others).ignored == {"Namespace": 1, "Secret": 1}


def test_missing_namespace_is_default(tmp_path: Path) -> None:
    text = PLACEMENT.replace("  namespace: ns1\n", "spec: {}\n")
    (placement,) = loaded(tmp_path, text).of(Placement)
    assert placement.metadata.namespace == "default"


def test_loader_reads_placement_v1alpha1(tmp_path: Path) -> None:
    text = PLACEMENT.replace("v1beta1", "v1alpha1") + "spec: {numberOfClusters: 1}\n"
    (placement,) = loaded(tmp_path, text).of(Placement)
    assert placement.spec.numberOfClusters == 1


@pytest.mark.parametrize(
    ("spec", "path", "line"),
    [
        ("  numberOfClusters: three\n", "spec.numberOfClusters", 7),
        ("  numberOfClusters: 1\n  nunberOfClusters: 2\n", "spec.nunberOfClusters", 8),
        (
            "  tolerations:\n  - key: a\n    tolerationSeconds: soon\n",
            "spec.tolerations[0].tolerationSeconds",
            9,
        ),
        ("  clusterSets: prod\n", "spec.clusterSets", 7),
        ("  clusterSets: [a, [b]]\n", "spec.clusterSets[1]", 7),
        (
            "  predicates:\n  - requiredClusterSelector:\n      labelSelector:\n        matchExpressions:\n"
            "        - {key: a, operator: in, values: [b]}\n",
            "spec.predicates[0].requiredClusterSelector.labelSelector",
            11,
        ),
    ],
)
def test_invalid_yaml_field_is_reported_with_its_line(
    tmp_path: Path, spec: str, path: str, line: int
) -> None:
    reported = problem(tmp_path, f"{PLACEMENT}spec:\n{spec}")
    assert reported.subject == "Placement ns1/web"
    assert reported.path.startswith(path)
    assert reported.line == line
    assert reported.message


def test_invalid_json_field_is_reported_with_its_line(tmp_path: Path) -> None:
    text = """{"kind": "List", "items": [
      {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
       "metadata": {"name": "a"},
       "status": {
         "capacity": {"cpu": "1",
           "memory": "lots"}}}]}"""
    reported = problem(tmp_path, text, "x.json")
    assert (reported.line, reported.subject) == (6, "ManagedCluster a")
    assert reported.path.startswith("status.capacity")


@pytest.mark.parametrize(
    ("written", "kind"), [("on", "a boolean"), ("1.30", "a number"), ("010", "a number")]
)
def test_unquoted_label_that_is_not_text_is_rejected(tmp_path: Path, written: str, kind: str) -> None:
    reported = problem(tmp_path, CLUSTER.replace("{a: b}", f"{{a: {written}}}"))
    assert (reported.path, reported.line) == ("metadata.labels[a]", 5)
    assert reported.remedy == (
        f'YAML reads the unquoted {written} as {kind}; write "{written}" in quotes if it is text'
    )


def test_misspelt_field_is_suggested(tmp_path: Path) -> None:
    reported = problem(tmp_path, f"{PLACEMENT}spec:\n  numberOfCluster: 3\n")
    assert reported.remedy == "did you mean numberOfClusters?"


def test_invalid_quantity_is_rejected(tmp_path: Path) -> None:
    reported = problem(tmp_path, f"{CLUSTER}status:\n  capacity:\n    cpu: 12 cores\n")
    assert reported.line == 8
    assert "12 cores" in reported.message + reported.remedy


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("just words", "is text, not a Kubernetes object", 1),
        ("a: 1\n", "has no apiVersion", 1),
        ("apiVersion: v1\n", "has no kind", 1),
        (PLACEMENT.replace("  name: web\n", ""), NO_NAME, 3),
        (PLACEMENT.replace("Placement", "Placment"), "unknown kind 'Placment'", 2),
        (PLACEMENT.replace("v1beta1", "v2"), "Placement has no version", 1),
        ("a: [1\nb: 2\n", "cannot parse as YAML", 2),
        ('{"a": 1', "cannot parse as", 1),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n", NO_OBJECTS, 0),
    ],
)
def test_documents_that_are_not_objects_are_rejected(
    tmp_path: Path, text: str, message: str, line: int
) -> None:
    reported = problem(tmp_path, text)
    assert message in reported.message
    assert reported.line == line
    assert reported.remedy


@pytest.mark.parametrize(
    "name", ["Upper", "clüster", "-a", "a-", "a..b", "a_b", "a b", "a\x1b[31m", "x" * 254]
)
def test_invalid_object_name_is_rejected(tmp_path: Path, name: str) -> None:
    text = json.dumps(
        {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": name},
        }
    )
    reported = problem(tmp_path, text, "x.json")
    assert (reported.path, reported.message) == ("metadata.name", f"{name!r} is not a valid object name")
    space = json.dumps(
        {
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "Placement",
            "metadata": {"name": "a.b-1", "namespace": name},
            "spec": {},
        }
    )
    reported = problem(tmp_path, space, "x.json")
    assert (reported.path, reported.message) == (
        "metadata.namespace",
        f"{name!r} is not a valid namespace name",
    )


def test_problem_is_one_line_for_any_name(tmp_path: Path) -> None:
    reported = problem(tmp_path, CLUSTER.replace("name: ", 'name: "a\\n\\e[31m" #', 1))
    assert reported.subject == "ManagedCluster a \\x1b[31m"
    assert len(str(reported).splitlines()) == 1


@pytest.mark.parametrize("name", ["x.yaml", "x.json"])
def test_list_with_items_of_another_type_is_rejected(tmp_path: Path, name: str) -> None:
    reported = problem(tmp_path, '{"apiVersion": "v1", "kind": "List", "items": "none"}', name)
    assert str(reported).endswith(
        "List: items: is text, must be a list of objects; write each object as an entry that starts with a dash"
    )


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("a: 1\na: 2\n", "remove one of the two; separate two objects with a line ---"),
        ("a:\n\t- b\n", "indent with spaces"),
        ("a: *b\n", "define the anchor &b before the alias"),
        ("a: [1\n", "check indentation, quotes and brackets on this line and the one before"),
        ("[" * 200, "no Kubernetes object is that deep; check that this is the right file"),
    ],
)
def test_malformed_text_has_a_remedy(tmp_path: Path, text: str, remedy: str) -> None:
    assert problem(tmp_path, text).remedy == remedy


def test_score_without_namespace_is_rejected(tmp_path: Path) -> None:
    text = "apiVersion: cluster.open-cluster-management.io/v1alpha1\nkind: AddOnPlacementScore\nmetadata: {name: a}\n"
    assert problem(tmp_path, text).message == NO_CLUSTER


def test_duplicate_object_names_both_places(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CLUSTER)
    (tmp_path / "b.yaml").write_text(f"{PLACEMENT}spec: {{}}\n---\n{CLUSTER}")
    with pytest.raises(InputProblemsError) as caught:
        load([str(tmp_path)])
    (reported,) = caught.value.problems
    assert str(reported) == (
        f"{tmp_path}/b.yaml:11: ManagedCluster c1: metadata.name: is defined twice, "
        f"first at {tmp_path}/a.yaml:1; {DUPLICATE_REMEDY}"
    )


def test_loader_reports_all_problems(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{PLACEMENT}spec:\n  numberOfClusters: x\n  clusterSets: 3\n")
    (tmp_path / "b.yaml").write_text("a: [\n")
    (tmp_path / "c.yaml").write_bytes(b"\x00")
    with pytest.raises(InputProblemsError) as caught:
        load([str(tmp_path), str(tmp_path / "c.yaml"), str(tmp_path / "nowhere")])
    assert {Path(problem.file).name for problem in caught.value.problems} == {
        "a.yaml",
        "b.yaml",
        "c.yaml",
        "nowhere",
    }
    assert len(caught.value.problems) == 5


def test_documents_before_malformed_text_are_checked(tmp_path: Path) -> None:
    reported = problems(tmp_path, f"{PLACEMENT}spec: {{clusterSets: 1}}\n---\na: [\n")
    assert [entry.line for entry in reported] == [6, 8]


def test_alias_bomb_in_a_file_is_rejected(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 30)]
    assert "aliases" in problem(tmp_path, "\n".join(lines)).message


def fairway(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "fairway.cli.main", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False)


@pytest.mark.parametrize(
    "given", [CLUSTER.encode(), gzip.compress(CLUSTER.encode())], ids=["plain", "gzipped"]
)
def test_loader_reads_standard_input(given: bytes) -> None:
    done = fairway("fleet", "show", "-f", "-", "-o", "json", given=given)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [row["name"] for row in json.loads(done.stdout)] == ["c1"]


@pytest.mark.parametrize("given", [b"", b"\x00\x01", b"a: [", b"caf\xe9", b"- 1\n- 2\n"])
def test_bad_standard_input_exits_2(given: bytes) -> None:
    done = fairway("fleet", "show", "-f", "-", given=given)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"fairway: <stdin>")
    assert b"Traceback" not in done.stderr


def test_loader_reads_process_substitution() -> None:
    reading, writing = os.pipe()
    os.write(writing, CLUSTER.encode())
    os.close(writing)
    command = [sys.executable, "-m", "fairway.cli.main", "fleet", "show", "-f", f"/dev/fd/{reading}"]
    done = subprocess.run(command, pass_fds=[reading], capture_output=True, check=False)
    os.close(reading)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"c1" in done.stdout


def test_endless_stream_is_rejected() -> None:
    with subprocess.Popen(["yes", "a: 1"], stdout=subprocess.PIPE) as endless:
        command = [
            sys.executable,
            "-m",
            "fairway.cli.main",
            "fleet",
            "show",
            "-f",
            "-",
            "--max-file-size",
            "1M",
        ]
        done = subprocess.run(command, stdin=endless.stdout, capture_output=True, check=False)
        endless.terminate()
    assert done.returncode == 2
    assert b"larger than the limit of 1 MiB" in done.stderr


def test_fleet_show_prints_a_table_and_ignored_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(f"{CLUSTER}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: x}}\n")
    assert run(["fleet", "show", "-f", str(file), "-v"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "NAME  SET  KUBERNETES  CPU  MEMORY  AVAILABLE  TAINTS",
        "c1    -    -           -    -       Unknown    -",
    ]
    assert captured.err == "fairway: ignored 1 object of other kinds: Namespace (1)\n"


@pytest.mark.parametrize(("size", "code"), [("10", 2), ("1KiB", 0), ("1.5 kb", 0), ("many", 2)])
def test_max_file_size_can_be_set(tmp_path: Path, size: str, code: int) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(CLUSTER)
    assert run(["fleet", "show", "-f", str(file), "--max-file-size", size]) == code


def test_time_that_a_hub_serves_and_no_decoder_reads_is_ignored_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taint = 'spec: {taints: [{key: k, effect: NoSelect, timeAdded: "2026-11-16T05:00:00+25:00"}]}\n'
    (cluster,) = loaded(tmp_path, CLUSTER + taint).of(ManagedCluster)
    assert [(taint.key, taint.effect, taint.timeAdded) for taint in cluster.spec.taints] == [
        ("k", "NoSelect", None)
    ]
    assert capsys.readouterr().err == (
        f"fairway: {tmp_path / 'x.yaml'}:1: ManagedCluster c1: cannot decode, ignored: "
        "spec.taints[0].timeAdded: Invalid RFC3339 encoded datetime\n"
    )
    assert problem(tmp_path, CLUSTER + taint.replace("+25:00", "")).path == "spec.taints[0].timeAdded"
