"""`fairway conformance`: compare this version with recorded answers of the reference implementations."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.progress import tracked
from fairway.cli.scheduling import load_scheduling
from fairway.cli.text import say
from fairway.engine.profile import Profile
from fairway.whatif.conformance.placement import run
from fairway.whatif.conformance.recording import ConformanceError, Recording, Result, open_recording

SUMMARY: Final = "{passed} passed, {failed} failed"
DIFFERENCES_PER_ROW: Final = 8
HIDDEN_ROWS: Final = "{count} more failed; show them with --show {all}"
PLACEMENT: Final = "placement"
"""The family whose answers depend on a profile."""
HIDDEN_FIELDS: Final = "    … and {count} more fields"


@dataclass(slots=True)
class _Tally:
    recording: Recording
    passed: int = 0
    failures: list[Result] = field(default_factory=list)


def conformance(
    files: tuple[str, ...], show: int, scheduler_config: Path | None, output: OutputFormat
) -> int:
    profile = None if scheduler_config is None else load_scheduling(scheduler_config).profile
    try:
        # Open all files before running the first: an unusable file is reported at once, not after minutes.
        tallies = [_run(recording, profile) for recording in [open_recording(file) for file in files]]
    except ConformanceError as error:
        raise BadInputError(str(error)) from None
    failed = sum(len(tally.failures) for tally in tallies)
    if output == "table":
        _print_failures(tallies, show)
    rows = [
        {
            "family": tally.recording.family,
            "file": tally.recording.file,
            "passed": tally.passed,
            "failed": len(tally.failures),
        }
        for tally in tallies
    ]
    columns = {"family": "Family", "passed": "Passed", "failed": "Failed", "file": "File"}
    document = [{**row, "failures": tally.failures[:show]} for row, tally in zip(rows, tallies, strict=True)]
    emit(rows, columns=columns, output=output, document=document)
    if output == "table":
        say(SUMMARY.format(passed=sum(tally.passed for tally in tallies), failed=failed))
    return EXIT_NO if failed else EXIT_OK


def _run(recording: Recording, profile: Profile | None) -> _Tally:
    runner = None
    if profile is not None and recording.family == PLACEMENT:
        runner = partial(run, profile=profile)
    tally = _Tally(recording)
    for result in tracked(recording.run(runner=runner), recording.family, total=len(recording)):
        if result.passed:
            tally.passed += 1
        else:
            tally.failures.append(result)
    return tally


def _print_failures(tallies: list[_Tally], show: int) -> None:
    left = show
    hidden = 0
    for tally in tallies:
        shown = tally.failures[:left]
        left -= len(shown)
        hidden += len(tally.failures) - len(shown)
        for failure in shown:
            say(f"{tally.recording.family} {failure.name}")
            for difference in failure.differences[:DIFFERENCES_PER_ROW]:
                say(f"  {difference.path or '(answer)'}")
                say(f"    expected  {difference.expected}")
                say(f"    got       {difference.got}")
            more = len(failure.differences) - DIFFERENCES_PER_ROW
            if more > 0:
                say(HIDDEN_FIELDS.format(count=more))
    if hidden:
        say(HIDDEN_ROWS.format(count=hidden, all=hidden + show))
    if show > left or hidden:
        say()
