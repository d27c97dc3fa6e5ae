"""Carry out `fairway test`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fairway.api.kinds import KubeObject
from fairway.cli.errors import EXIT_NO, EXIT_OK, InputProblemsError, Problem
from fairway.cli.files.loader import load
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.plan.text import because
from fairway.cli.scheduling import load_scheduling
from fairway.cli.test.files import Case, Suite, read
from fairway.cli.test.junit import write
from fairway.cli.text import cell, say
from fairway.engine.profile import Profile
from fairway.engine.trace import Trace
from fairway.hosts.instant import to_micros
from fairway.whatif.advice import satisfied
from fairway.whatif.fleet.changes import ChangeError, Editor
from fairway.whatif.names import UnknownNameError, find_cluster, find_placement
from fairway.whatif.world import World

PASSED: Final = "passed"
FAILED: Final = "failed"
SELECTED: Final = "selects {got}, expected {want}"
MISSING: Final = "does not select {cluster}: {why}"
SURPLUS: Final = "selects {cluster}: {why}"
COUNT: Final = "selects {got} clusters, expected {want}"
SATISFIED: Final = "satisfied is {got}, expected {want} ({reason})"
REASON: Final = "{cluster}: expected the reason {want!r}; it is: {why}"
TOTAL: Final = "{passed} passed, {failed} failed"


@dataclass(frozen=True, slots=True)
class Result:
    suite: Suite
    case: Case
    failures: tuple[str, ...]


def test(
    paths: tuple[str, ...], junit: str | None, scheduler_config: Path | None, output: OutputFormat
) -> int:
    profile = load_scheduling(scheduler_config).profile
    results = [result for suite in read(paths) for result in _run(suite, profile)]
    failed = [result for result in results if result.failures]
    if junit is not None:
        write(
            Path(junit),
            [(result.suite.file, result.case.title, result.failures) for result in results],
        )
    rows = [
        {
            "file": result.suite.file,
            "test": result.case.title,
            "placement": result.case.placement,
            "result": FAILED if result.failures else PASSED,
            "failures": list(result.failures),
        }
        for result in results
    ]
    columns = {"file": "File", "test": "Test", "placement": "Placement", "result": "Result"}
    emit(rows, columns=columns, output=output)
    if output == "table":
        for result in failed:
            say()
            say(f"{result.suite.file}: {cell(result.case.title)}")
            for failure in result.failures:
                say(f"  {cell(failure)}")
        say(f"\n{TOTAL.format(passed=len(results) - len(failed), failed=len(failed))}")
    return EXIT_NO if failed else EXIT_OK


def _run(suite: Suite, profile: Profile) -> Iterator[Result]:
    objects = [loaded.object for loaded in load(suite.files, expressions=True)]
    moment = suite.now or datetime.now(UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    for case, line in zip(suite.cases, suite.lines, strict=True):
        try:
            yield Result(suite, case, tuple(_failures(case, objects, profile, moment)))
        except (ChangeError, UnknownNameError) as error:
            raise InputProblemsError(
                [Problem(file=suite.file, line=line, subject=case.title, message=str(error))]
            ) from None


def _failures(case: Case, objects: Sequence[KubeObject], profile: Profile, moment: datetime) -> Iterator[str]:
    editor = Editor(objects)
    for name in case.drain:
        editor.drain(name, now=moment)
    for selector in case.lose:
        editor.lose(selector, now=moment)
    for weight in case.set_weight:
        editor.set_weight(weight)
    editor.add_clusters(case.add_clusters)
    world = World(objects, profile=profile)
    for change in editor.changes():
        world.put(change.after)
    key, expected = find_placement(world, case.placement), case.expect
    for name in (*(expected.clusters or ()), *expected.includes, *expected.excludes, *expected.reasons):
        find_cluster(world, name)
    verdict = world.ask(key, now=to_micros(moment))
    trace, selected = Trace(verdict.outcome), verdict.outcome.selected_names

    def why(cluster: str) -> str:
        return because(trace.host(cluster))

    wanted = set(expected.clusters or ())
    if expected.clusters is not None and wanted != selected:
        got, want = (", ".join(sorted(names)) or "no cluster" for names in (selected, wanted))
        yield SELECTED.format(got=got, want=want)
    for name in sorted((wanted | set(expected.includes)) - selected):
        yield MISSING.format(cluster=name, why=why(name))
    for name in sorted(selected & set(expected.excludes)):
        yield SURPLUS.format(cluster=name, why=why(name))
    if expected.count is not None and expected.count != len(selected):
        yield COUNT.format(got=len(selected), want=expected.count)
    good, reason = satisfied(verdict)
    if expected.satisfied is not None and expected.satisfied is not good:
        got, want = ("true" if value else "false" for value in (good, expected.satisfied))
        yield SATISFIED.format(got=got, want=want, reason=reason)
    for name, text in expected.reasons.items():
        if text not in why(name):
            yield REASON.format(cluster=name, want=text, why=why(name))
