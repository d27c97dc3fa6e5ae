"""Loading of providers by file, module and name, and its errors."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fairway.providers import ClusterProvider, OptionsError
from fairway.providers.catalogue import CATALOGUE, CatalogueEntry, Context
from fairway.providers.loading import GROUP, LoadingError, installed, load

CONTEXT = Context(name="test")

ONE = """
from fairway.providers import Linear, provider

@provider(scores={"queueFree": Linear(0, 1000)})
def queue():
    return 7
"""
TWO = (
    ONE
    + """
@provider(scores={"queueAge": Linear(0, 1000)})
def age():
    return 7

alias = age
"""
)
CLASSES = """
from fairway.providers import ClusterProvider, Linear, Reading, Score

class Base(ClusterProvider):
    pass

class Queue(Base):
    name, resource = "queue", "queue-score"
    scores = (Score(name="queueFree", scale=Linear(0, 1000)),)

    async def read(self):
        return Reading(values={"queueFree": 7})
"""
FACTORY = """
from fairway.providers import Linear, provider

def make(options, context):
    @provider(scores={"queueFree": Linear(0, options.get("most", 1000))}, name=context.name)
    def queue():
        return 7
    return queue

def nothing(options, context):
    return 7
"""


@pytest.fixture(autouse=True)
def path_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "queue_provider.py"


FROZEN = "from dataclasses import dataclass\n" + CLASSES.replace(
    "class Queue", "@dataclass(frozen=True)\nclass Queue"
)


@pytest.mark.parametrize("source", [ONE, CLASSES, CLASSES + "\nqueue = Queue()\n", FROZEN])
def test_single_provider_of_file_is_loaded(file: Path, source: str) -> None:
    file.write_text(source)
    provider = load(str(file))({}, CONTEXT)
    assert isinstance(provider, ClusterProvider)
    assert (provider.name, provider.isolated) == ("queue", True)


def test_named_provider_of_file_is_loaded(file: Path) -> None:
    file.write_text(TWO)
    assert load(f"{file}:age")({}, CONTEXT).name == "age"


def test_relative_provider_path_is_loaded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(ONE)
    monkeypatch.chdir(file.parent)
    assert load(file.name)({}, CONTEXT).name == "queue"


def test_provider_file_imports_modules_beside_it(file: Path) -> None:
    (file.parent / "limits_of_queue.py").write_text("MOST = 9")
    file.write_text("from limits_of_queue import MOST\n" + ONE.replace("1000", "MOST"))
    assert load(str(file))({}, CONTEXT).name == "queue"


def test_provider_of_module_is_loaded(file: Path) -> None:
    file.write_text(TWO)
    sys.path.insert(0, str(file.parent))
    assert load("queue_provider:age")({}, CONTEXT).name == "age"


def test_factory_gets_options_and_context(file: Path) -> None:
    file.write_text(FACTORY)
    provider = load(f"{file}:make")({"most": 5}, CONTEXT)
    assert (provider.name, provider.isolated) == ("test", True)
    assert provider.scores[0].scale.score(5) == 100
    with pytest.raises(LoadingError, match="nothing is a factory of int, not a provider"):
        load(f"{file}:nothing")({}, CONTEXT)


def test_options_for_plain_provider_are_rejected(file: Path) -> None:
    file.write_text(ONE)
    with pytest.raises(OptionsError, match="takes no options"):
        load(str(file))({"most": 5}, CONTEXT)


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ("", "", "queue_provider.py has no provider; put @provider"),
        (TWO, "", r"has several providers: age, queue; name one, as in .*queue_provider.py:age"),
        ("x = 1\ndef f(:\n", "", r"queue_provider.py:2: invalid Python: invalid syntax"),
        ("x = 1\n\n1 / 0\n", "", r"queue_provider.py:3: running it failed: ZeroDivisionError"),
        ("import sys\nsys.exit(4)\n", "", r"queue_provider.py:2: running it failed: SystemExit: 4"),
        ("import nosuchthing\n", "", r"queue_provider.py:1: .*No module named 'nosuchthing'"),
        (ONE.replace("Linear(0, 1000)", "7"), "", r"queue_provider.py:4: .*write one such as Linear"),
        (
            ONE.replace("@provider(", "@provider\n#("),
            "",
            "queue_provider.py:4: .*@provider needs scores: write",
        ),
        (CLASSES.replace("def read", "def raed"), "", "queue_provider.py:Base has no method read"),
        (ONE, "quue", "has no 'quue', did you mean 'queue'?"),
        (ONE, "zzz", "has no 'zzz'; it has queue"),
        (ONE + "\nnumber = 7", "number", "number is a int, not a provider"),
        (
            ONE + "\ndef plain(): ...",
            "plain",
            r"is a function, not a provider: put @provider\(...\) above it",
        ),
        (CLASSES, "Base", "Base cannot be made without arguments|Base is a"),
        (CLASSES.replace("async def", "def __init__(self, x): ...\n    async def"), "", "without arguments"),
    ],
)
def test_invalid_provider_file_is_reported(file: Path, source: str, name: str, words: str) -> None:
    file.write_text(source)
    with pytest.raises(LoadingError, match=words):
        load(f"{file}:{name}" if name else str(file))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nosuch.py", "there is no file nosuch.py"),
        ("nosuch.py:queue", "there is no file nosuch.py"),
        ("./nosuch", "there is no file nosuch"),
        ("nosuchmodule:queue", "there is no module 'nosuchmodule'"),
        ("nosuch.module:queue", "there is no module 'nosuch.module'"),
        ("json:queue", "json has no 'queue'"),
        ("nosuch", "there is no provider 'nosuch'; `fairway provider list` shows"),
    ],
)
def test_missing_provider_is_reported(target: str, words: str) -> None:
    with pytest.raises(LoadingError, match=words):
        load(target)


def test_non_python_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "queue.go").write_text("package main")
    with pytest.raises(LoadingError, match="is not a Python file"):
        load(str(tmp_path / "queue.go"))


def test_entry_point_provider_is_loaded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(TWO)
    sys.path.insert(0, str(file.parent))
    points = EntryPoints(
        [
            EntryPoint(name="company-queue", value="queue_provider:queue", group=GROUP),
            EntryPoint(name="broken", value="nosuchmodule:queue", group=GROUP),
        ]
    )
    monkeypatch.setattr("fairway.providers.loading.entry_points", lambda group: points.select(group=group))
    assert set(installed()) == {"company-queue", "broken"}
    assert load("company-queue")({}, CONTEXT).name == "queue"
    with pytest.raises(LoadingError, match="there is no module 'nosuchmodule'"):
        load("broken")
    with pytest.raises(LoadingError, match="did you mean 'company-queue'"):
        load("company-queu")


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_catalogue_targets_exist(name: str) -> None:
    assert callable(CATALOGUE[name].factory())
    assert CATALOGUE[name].meaning.endswith(".")


def test_builtin_providers_run_inline(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    file.write_text(FACTORY.replace("    return queue", "    queue.isolated = False\n    return queue"))
    sys.path.insert(0, str(file.parent))
    monkeypatch.setitem(CATALOGUE, "own", CatalogueEntry("queue_provider:make", "Ours."))
    assert not load("own")({}, CONTEXT).isolated


def test_context_without_cluster_is_reported() -> None:
    with pytest.raises(OptionsError, match="--managed-kubeconfig"):
        CONTEXT.local_client()
