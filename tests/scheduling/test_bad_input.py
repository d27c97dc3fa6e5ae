"""Invalid configurations: every problem of a file is reported at once, with file, line, field, reason and remedy."""

from pathlib import Path
from typing import Any

import pytest

from fairway.engine.kind import WorkKind
from fairway.engine.points import Context
from fairway.engine.profile import Enabled
from fairway.engine.registry import Registry
from fairway.engine.status import OK, Status
from fairway.engine.workload import Workload
from fairway.scheduling import watchdog
from fairway.scheduling.guard import Supervisor
from fairway.scheduling.loading import LARGEST_FILE, ConfigurationError, Scheduling, load
from fairway.scheduling.watchdog import Watchdog

HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\n"


class Sorts:
    name = "PrioritySort"

    def sort_key(self, workload: Workload[Any], queued: int, /) -> tuple[int, ...]:
        return (queued,)


class Balance:
    name = "Balance"

    def __init__(self, *, strength: int = 1) -> None:
        if strength < 1:
            raise ValueError("strength must be at least 1")

    def score(self, context: Context, row: int, /) -> int:
        return 0


class Taints:
    name = "TaintToleration"

    def filter(self, context: Context, row: int, /) -> Status:
        return OK


def registry() -> Registry:
    made = Registry()
    for kind in (Sorts, Balance, Taints):
        made.register(kind.name, kind)
    return made


KIND = WorkKind(
    name="toys",
    profile="placement",
    registry=registry,
    enabled=(Enabled("PrioritySort"), Enabled("TaintToleration"), Enabled("Balance")),
    names_profiles=True,
    isolates=True,
    selects_plugins=True,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(text: str | bytes) -> Scheduling:
    Path("scheduler.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    return load(Path("scheduler.yaml"), kind=KIND, beside=(), supervisor=Supervisor(clock=lambda: 0.0))


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        loaded(text)
    return [str(problem) for problem in caught.value.problems]


def profile(plugins: str) -> str:
    return f"{HEAD}profiles:\n- plugins:\n    {plugins}\n"


@pytest.mark.usefixtures("folder")
class TestProblems:
    def test_unknown_plugin_names_the_nearest_one(self) -> None:
        assert problems(profile("filter: {enabled: [{name: taintTolerations}]}")) == [
            "scheduler.yaml:5: profiles[0].plugins.filter.enabled[0].name: unknown plugin 'taintTolerations'; "
            "did you mean 'TaintToleration'?"
        ]
        assert problems(profile("filter: {enabled: [{name: Xyz}]}")) == [
            "scheduler.yaml:5: profiles[0].plugins.filter.enabled[0].name: unknown plugin 'Xyz'; "
            "`fairway scheduler plugins` lists the plugins"
        ]

    def test_two_queue_sorts_are_refused(self) -> None:
        Path("sorts.py").write_text(
            "class Newest:\n    name = 'Newest'\n    def sort_key(self, workload, queued):\n        return (-queued,)\n"
        )
        text = f"{HEAD}pluginFiles: [sorts.py]\nprofiles:\n- plugins:\n    queueSort:\n"
        text += "      enabled: [{name: Newest}]\n"
        assert problems(text) == [
            "scheduler.yaml:6: profiles[0].plugins.queueSort: only one QueueSort plugin may be enabled; "
            "got 'PrioritySort' and 'Newest'; list the others under queueSort.disabled"
        ]

    @pytest.mark.parametrize("weight", ["0", "-3"])
    def test_weight_below_1_is_refused(self, weight: str) -> None:
        assert problems(profile(f"score: {{enabled: [{{name: Balance, weight: {weight}}}]}}")) == [
            "scheduler.yaml:5: profiles[0].plugins.score.enabled[0].weight: weight of plugin 'Balance' must be at "
            f"least 1; got {weight}; leave it out for 1, or list the plugin under disabled"
        ]

    def test_weight_of_a_plugin_that_does_not_score_is_refused(self) -> None:
        assert problems(profile("multiPoint: {enabled: [{name: TaintToleration, weight: 2}]}")) == [
            "scheduler.yaml:5: profiles[0].plugins.multiPoint.enabled[0].weight: plugin 'TaintToleration' has a "
            "weight, but does not implement Score; remove the weight"
        ]

    def test_plugin_without_the_point_at_which_it_is_enabled_is_refused(self) -> None:
        assert problems(profile("filter: {enabled: [{name: Balance}]}")) == [
            "scheduler.yaml:5: profiles[0].plugins.filter.enabled[0].name: plugin 'Balance' does not implement "
            "Filter; it implements Score"
        ]

    def test_plugin_file_with_a_syntax_error_names_its_line(self) -> None:
        Path("broken.py").write_text(
            "class Broken:\n    def filter(self, context, row)\n        return None\n"
        )
        assert problems(f"{HEAD}pluginFiles:\n- broken.py\n") == [
            "scheduler.yaml:4: pluginFiles[0]: broken.py:2: invalid Python: expected ':'; "
            "fix the file, or remove it from pluginFiles"
        ]

    def test_plugin_file_that_raises_names_its_line(self) -> None:
        Path("broken.py").write_text("import math\n\nmath.sqrt(-1)\n")
        assert problems(f"{HEAD}pluginFiles: [broken.py, missing.py, empty.py]\n") == [
            "scheduler.yaml:3: pluginFiles[0]: broken.py:3: running it failed: ValueError: math domain error; "
            "fix the file, or remove it from pluginFiles",
            "scheduler.yaml:3: pluginFiles[1]: there is no file missing.py; write a path relative to the configuration",
            "scheduler.yaml:3: pluginFiles[2]: there is no file empty.py; write a path relative to the configuration",
        ]

    @pytest.mark.parametrize(
        ("method", "problem", "remedy"),
        [
            (
                "def score(self, row)",
                "takes (self, row), but is called with (self, context, row)",
                "def score(self, context, row)",
            ),
            (
                "def score(self, context, row, *, base)",
                "takes (self, context, row, base), but is called with (self, context, row)",
                "def score(self, context, row)",
            ),
            (
                "@staticmethod\n    def filter(context)",
                "takes (context), but is called with (context, row)",
                "def filter(context, row)",
            ),
            (
                "async def filter(self, context, row)",
                "is a coroutine, but is called within a cycle, which does not wait",
                "def filter(self, context, row)",
            ),
            (
                "async def post_bind(self)",
                "takes (self), but is called with (self, context)",
                "def post_bind(self, context)",
            ),
        ],
    )
    def test_method_that_cannot_be_called_as_the_engine_calls_it_is_refused(
        self, method: str, problem: str, remedy: str
    ) -> None:
        Path("own.py").write_text(f"class Own:\n    name = 'Own'\n    {method}:\n        return None\n")
        name = method.partition("def ")[2].partition("(")[0]
        assert problems(f"{HEAD}pluginFiles: [own.py]\n") == [
            f"scheduler.yaml:3: pluginFiles[0]: own.py:Own.{name} (line 3) {problem}; write `{remedy}`"
        ]

    @pytest.mark.parametrize(
        "method",
        [
            "def score(self, *_)",
            "def score(self, where, /, what, more=1)",
            "@classmethod\n    def score(cls, a, b)",
        ],
    )
    def test_method_with_other_names_or_more_defaults_is_accepted(self, method: str) -> None:
        Path("own.py").write_text(f"class Own:\n    name = 'Own'\n    {method}:\n        return None\n")
        assert "Own" in [plugin.name for plugin in loaded(f"{HEAD}pluginFiles: [own.py]\n").plugins]

    @pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"])
    def test_plugin_that_cannot_be_imported_or_created_is_refused(self, error: str) -> None:
        Path("imported.py").write_text(f"raise {error}(3)\n")
        assert problems(f"{HEAD}pluginFiles: [imported.py]\n") == [
            f"scheduler.yaml:3: pluginFiles[0]: imported.py:1: running it failed: {error}: 3; "
            "fix the file, or remove it from pluginFiles"
        ]
        Path("created.py").write_text(
            "class Made:\n    name = 'Made'\n    def score(self, context, row): ...\n"
            f"    def __init__(self):\n        raise {error}(3)\n"
        )
        text = f"{HEAD}pluginFiles: [created.py]\nprofiles:\n- plugins: {{score: {{enabled: [{{name: Made}}]}}}}\n"
        assert problems(text) == [
            "scheduler.yaml:5: profiles[0].plugins.score.enabled[0]: plugin Made does not accept its arguments: "
            f"{error}: 3"
        ]

    def test_plugin_that_does_not_end_its_start_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watchdog, "START_SECONDS", 0.05)
        Path("waits.py").write_text("import time\ntime.sleep(3600)\n")
        Path("scheduler.yaml").write_text(f"{HEAD}pluginFiles: [waits.py]\n")
        supervisor = Supervisor(clock=lambda: 0.0, watch=Watchdog())
        with pytest.raises(ConfigurationError, match=r"waits.py: running it failed: did not end within"):
            load(Path("scheduler.yaml"), kind=KIND, beside=(), supervisor=supervisor)

    def test_plugin_file_without_a_plugin_is_refused(self) -> None:
        Path("none.py").write_text("class Thing:\n    pass\n")
        Path("misspelt.py").write_text("class M:\n    name = 'M'\n    def filtre(self, context, row): ...\n")
        assert problems(f"{HEAD}pluginFiles: [none.py, misspelt.py]\n") == [
            "scheduler.yaml:3: pluginFiles[0]: none.py defines no plugin; "
            "define a class with a name and a method such as filter or score",
            "scheduler.yaml:3: pluginFiles[1]: misspelt.py:M implements no extension point; it has filtre, "
            "and a plugin has methods such as filter, score or permit",
        ]

    def test_plugin_file_with_the_name_of_a_built_in_plugin_is_refused(self) -> None:
        Path("mine.py").write_text(
            "class Mine:\n    name = 'Balance'\n    def score(self, context, row): ...\n"
        )
        assert problems(f"{HEAD}pluginFiles: [mine.py]\n") == [
            "scheduler.yaml:3: pluginFiles[0]: Mine has the name of plugin 'Balance' of fairway; give it another name"
        ]

    def test_duplicate_and_unnamed_profiles_are_refused(self) -> None:
        text = f"{HEAD}profiles:\n- schedulerName: a\n- schedulerName: a\n- onPluginFault: Skip\n"
        assert problems(text) == [
            "scheduler.yaml:5: profiles[1].schedulerName: duplicate profile 'a'; the first one is profiles[0]; "
            "give each profile its own schedulerName",
            "scheduler.yaml:6: profiles[2].schedulerName: is required because there is more than one profile; "
            "write schedulerName: placement",
        ]

    def test_unknown_fields_are_refused_with_the_nearest_known_one(self) -> None:
        text = f"{HEAD}profile: []\npercentageOfNodesToScore: 50\nprofiles:\n"
        text += "- plugins:\n    filters: {}\n  color: red\n"
        assert problems(text) == [
            "scheduler.yaml:3: profile: unknown field; did you mean 'profiles'?",
            "scheduler.yaml:4: percentageOfNodesToScore: unknown field; remove it: Fairway scores every host",
            "scheduler.yaml:7: profiles[0].plugins.filters: unknown field; did you mean 'filter'?",
            "scheduler.yaml:8: profiles[0].color: unknown field; "
            "known fields are schedulerName, plugins, pluginConfig, onPluginFault",
        ]

    def test_wrong_types_and_values_are_refused(self) -> None:
        text = (
            f"{HEAD}podInitialBackoffSeconds: 0\npodMaxBackoffSeconds: soon\npluginFiles: plugins.py\nprofiles:\n"
            "- onPluginFault: Ignore\n  plugins:\n    filter: [TaintToleration]\n"
            "    score: {enabled: [Balance, {weight: 1.5, name: Balance}, {name: 3}]}\n"
        )
        assert problems(text) == [
            "scheduler.yaml:3: podInitialBackoffSeconds: must be between 1 and 86400; got 0",
            "scheduler.yaml:4: podMaxBackoffSeconds: expected a whole number; got 'soon'",
            "scheduler.yaml:5: pluginFiles: expected a list; got 'plugins.py'",
            "scheduler.yaml:7: profiles[0].onPluginFault: must be Fail or Skip; got 'Ignore'",
            "scheduler.yaml:9: profiles[0].plugins.filter: expected a mapping; got a list",
            "scheduler.yaml:10: profiles[0].plugins.score.enabled[0]: expected a mapping; got 'Balance'",
            "scheduler.yaml:10: profiles[0].plugins.score.enabled[1].weight: expected a whole number; got 1.5",
            "scheduler.yaml:10: profiles[0].plugins.score.enabled[2].name: expected a non-empty text; got 3",
        ]

    def test_longest_back_off_below_the_first_one_is_refused(self) -> None:
        assert problems(f"{HEAD}podInitialBackoffSeconds: 20\n") == [
            "scheduler.yaml:3: podInitialBackoffSeconds: the longest back-off, 10 seconds, is shorter than the first "
            "one, 20 seconds; write podMaxBackoffSeconds: 20 or more"
        ]

    def test_document_of_another_kind_is_refused(self) -> None:
        text = "apiVersion: kubescheduler.example.com/v1\n"
        assert problems(text) == [
            "scheduler.yaml:1: apiVersion: must be fairway.dev/v1alpha1; got 'kubescheduler.example.com/v1'; "
            "write apiVersion: fairway.dev/v1alpha1",
            "scheduler.yaml:1: kind: is required; write kind: SchedulerConfiguration",
        ]
        assert problems("- 1\n") == ["scheduler.yaml:1: expected a mapping; got a list"]

    def test_repeated_plugins_and_arguments_are_refused(self) -> None:
        text = (
            f"{HEAD}profiles:\n- plugins:\n    score: {{enabled: [{{name: Balance}}, {{name: Balance}}]}}\n"
            "  pluginConfig:\n  - {name: Balance, args: {}}\n  - {name: Balance}\n  - {name: Balanced}\n"
        )
        assert problems(text) == [
            "scheduler.yaml:5: profiles[0].plugins.score.enabled[1]: plugin 'Balance' is listed twice; the first "
            "entry is profiles[0].plugins.score.enabled[0]; remove one of them",
            "scheduler.yaml:8: profiles[0].pluginConfig[1].name: plugin 'Balance' is listed twice; the first "
            "entry is profiles[0].pluginConfig[0]; remove one of them",
            "scheduler.yaml:9: profiles[0].pluginConfig[2].name: unknown plugin 'Balanced'; did you mean 'Balance'?",
        ]

    def test_arguments_that_a_plugin_refuses_are_reported(self) -> None:
        def given(args: str) -> list[str]:
            return problems(f"{HEAD}profiles:\n- pluginConfig:\n  - name: Balance\n    args: {args}\n")

        assert given("{strength: 0}") == [
            "scheduler.yaml:6: profiles[0].pluginConfig[0].args: plugin Balance does not accept its arguments: "
            "strength must be at least 1"
        ]
        assert "unexpected keyword argument 'strong'" in given("{strong: 1}")[0]

    @pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
    def test_empty_file_is_refused(self, text: str) -> None:
        assert problems(text) == [
            "scheduler.yaml: is empty; write at least apiVersion: fairway.dev/v1alpha1 and kind: SchedulerConfiguration"
        ]

    def test_huge_file_is_refused_without_parsing_it(self) -> None:
        assert problems(b"- " * LARGEST_FILE) == [
            "scheduler.yaml: is larger than 1 MiB; this is probably another file"
        ]

    def test_invalid_yaml_names_its_line(self) -> None:
        (problem,) = problems(f"{HEAD}profiles: [\n")
        assert problem.startswith("scheduler.yaml:3: is not valid YAML: ")

    def test_missing_file_is_refused(self) -> None:
        with pytest.raises(
            ConfigurationError,
            match=r"^nothing.yaml: cannot be read \(No such file or directory\); check the path$",
        ):
            load(Path("nothing.yaml"), kind=KIND, beside=(), supervisor=Supervisor(clock=lambda: 0.0))


@pytest.mark.usefixtures("folder")
def test_valid_file_is_loaded_with_plugins_of_files() -> None:
    Path("near.py").write_text(
        "class Near:\n    name = 'Near'\n    def score(self, context, row):\n        return row\n"
    )
    scheduling = loaded(
        f"{HEAD}podMaxBackoffSeconds: 60\npluginFiles: [near.py]\nprofiles:\n- schedulerName: placement\n"
        "  onPluginFault: Skip\n  plugins: {score: {enabled: [{name: Near, weight: 4}]}}\n"
    )
    profile = scheduling.profiles["placement"]
    assert [(scorer.plugin.name, scorer.weight) for scorer in profile.scores] == [("Balance", 1), ("Near", 4)]
    assert profile.on_fault == "Skip"
    assert scheduling.configuration.max_backoff_seconds == 60
    assert {plugin.name: plugin.origin for plugin in scheduling.plugins}["Near"] == "near.py"
