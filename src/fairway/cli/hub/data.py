"""`fairway hub backup`, `restore` and `check`: a hub's data made safe, put back, looked over, taken elsewhere."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.cli.hub.manifests import Count

Format = Literal["data", "manifests"]

STDOUT: Final = "-"

EXISTS: Final = "{path} already exists; name another file, or replace it with --force"
ONE_PLACE: Final = "name one thing to check: a backup FILE, or a folder with --data"
ONLY_MANIFESTS: Final = "--status is for --format manifests; a backup of the data holds every status"

SAVED: Final = "{file}: {objects} at revision {revision}, and {keys}"
RESTORED: Final = "{folder}: {objects}, going on at revision {revision}; {keys}"
KEYS_BACK: Final = "its keys are back, so kubeconfigs and tokens go on working"
KEYS_LACKING: Final = (
    "the backup has no keys; if the folder has none either, `fairway hub renew-pki` makes new ones"
)
FINE: Final = "{path} is fine: {objects} at revision {revision}"
NOT_FINE: Final = (
    "{path} is damaged. Keep a copy before `fairway hub restore --force` puts a backup in its place."
)
WRITTEN: Final = "{where}: {definitions} and {objects}"
LEFT_OUT: Final = "left out, as they are every hub's own: {kinds}"
OWNERS: Final = "owner references left out of {objects}: they name uids, which another hub gives anew"
NO_STATUS: Final = "no status was written (--status adds it)"
STATUS_INSIDE: Final = (
    "kubectl applies no status of kinds that have it as a subresource; write to a folder to get it apart"
)
TO_APPLY: Final = "to apply it to another hub:"
TWICE: Final = "  # again, if that hub lacks the definitions: kubectl looks all kinds up before it starts"


@click.command(
    short_help="Save a hub's data in a file, also while it runs.",
    epilog="""\b
Examples:
  fairway hub backup --data ./hub --out hub.backup          everything, for `fairway hub restore`
  fairway hub backup --data ./hub --out hub.backup --force  replace the last one
  fairway hub backup --data ./hub --out hub.yaml            manifests, for `kubectl apply`
  fairway hub backup --data ./hub --out moved/ --format manifests
  fairway hub backup --data ./hub --out - --format manifests | kubectl diff -f -

A backup holds the hub's keys, and manifests hold its secrets: both files are readable by you alone.
""",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The hub's folder.",
)
@click.option(
    "--out",
    required=True,
    metavar="FILE|DIR/",
    help="Where to write. Manifests may go to - for standard output, or to a folder, which gets definitions, "
    "objects and status in files of their own.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["data", "manifests"]),
    help="data: the objects with their history, and the keys; manifests: objects for another hub.  "
    "[default: manifests for a name ending in .yaml, .yml or .json, otherwise data]",
)
@click.option("--status", is_flag=True, help="Manifests: also write the status of objects.")
@click.option("--force", is_flag=True, help="Replace what is there.")
@output_option
def backup(
    data: Path, out: str, format_: Format | None, status: bool, force: bool, output: OutputFormat
) -> None:
    """Save everything a hub needs to start again elsewhere, or its objects as manifests for a real hub."""
    if (format_ or _format_for(out)) == "manifests":
        _write_manifests(data, out, status=status, force=force, output=output)
        return
    if status:
        raise BadInputError(ONLY_MANIFESTS)
    from fairway.cli.hub.backup import save
    from fairway.cli.hub.faults import told
    from fairway.cli.progress import progress

    file = Path(out)
    _refuse_existing(file, force=force)
    with told(), progress("backing up", total=None):
        outcome = save(data, file, force=force)
    document = {
        "file": str(file),
        "format": "data",
        "objects": outcome.objects.objects,
        "revision": outcome.objects.revision,
        "identity": outcome.objects.identity,
        "keys": list(outcome.keys),
    }
    if output != "table":
        emit((), columns={}, output=output, document=document)
        return
    objects, keys = _counted(outcome.objects.objects, "object"), _counted(len(outcome.keys), "key file")
    say(SAVED.format(file=file, objects=objects, revision=outcome.objects.revision, keys=keys))


@click.command(
    short_help="Put a backup in a folder.",
    epilog="""\b
Examples:
  fairway hub restore hub.backup --data ./hub
  fairway hub restore hub.backup --data ./hub --force       replace the data that is there

The restored hub continues at a much higher revision, so every watch starts over. A backup can be restored repeatedly.
""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder for `fairway hub --data`; made if it isn't there.",
)
@click.option("--force", is_flag=True, help="Replace the data that is there.")
@output_option
def restore(file: Path, data: Path, force: bool, output: OutputFormat) -> None:
    """Put what `fairway hub backup` saved in FILE into a folder: its objects and its keys."""
    from fairway.cli.hub.backup import load
    from fairway.cli.hub.faults import told
    from fairway.cli.progress import progress

    with told(), progress("restoring", total=None):
        outcome = load(file, data, force=force)
    summary = outcome.objects
    if output != "table":
        document = {
            "data": str(data),
            "objects": summary.objects,
            "revision": summary.revision,
            "identity": summary.identity,
            "keys": list(outcome.keys),
        }
        emit((), columns={}, output=output, document=document)
        return
    keys = KEYS_BACK if outcome.keys else KEYS_LACKING
    objects = _counted(summary.objects, "object")
    say(RESTORED.format(folder=data, objects=objects, revision=summary.revision, keys=keys))


@click.command(
    short_help="Look for damage in a folder or a backup.",
    epilog="""\b
Examples:
  fairway hub check --data ./hub                            also while it runs
  fairway hub check hub.backup -o json

Exit status: 0 when all is well, 1 when something is damaged, 2 when it cannot be read.
""",
)
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The hub's folder.",
)
@output_option
def check(file: Path | None, data: Path | None, output: OutputFormat) -> int:
    """Read everything a folder or a backup FILE holds, and list what is wrong with it."""
    from fairway.cli.hub.backup import key_problems, require_data
    from fairway.cli.hub.faults import told
    from fairway.cli.progress import progress
    from fairway.hub.storage import archive

    place = file or data
    if place is None or (file and data):
        raise click.UsageError(ONE_PLACE, click.get_current_context())
    with told(), progress("checking", total=None):
        if place.is_dir():
            require_data(place)
        report = archive.check(place)
        rows: list[dict[str, object]] = [
            {"revision": each.revision or None, "problem": each.text} for each in report.problems
        ]
        if report.revision:  # otherwise nothing of it could be read
            rows += ({"revision": None, "problem": text} for text in key_problems(place))
    if output != "table":
        document = {
            "path": str(place),
            "revision": report.revision,
            "rows": report.rows,
            "objects": report.objects,
            "problems": rows,
        }
        emit((), columns={}, output=output, document=document)
    elif rows:
        emit(rows, columns={"revision": "Revision", "problem": "Problem"})
        say(NOT_FINE.format(path=place))
    else:
        objects = _counted(report.objects, "object")
        say(FINE.format(path=place, objects=objects, revision=report.revision))
    return EXIT_NO if rows else EXIT_OK


# Manifests


def _write_manifests(data: Path, out: str, *, status: bool, force: bool, output: OutputFormat) -> None:
    from fairway.cli.hub.backup import require_data
    from fairway.cli.hub.faults import private, told
    from fairway.cli.hub.manifests import targets, write
    from fairway.cli.progress import progress

    files = targets(out, status=status)
    if out != STDOUT:
        for file in files:
            _refuse_existing(file, force=force)
    with told(), private(), progress("writing", total=None):
        require_data(data)
        count = write(data, out, status=status)
    # Standard output may be taken by the manifests themselves.
    stream = sys.stderr if out == STDOUT else sys.stdout
    if output == "table":
        for line in _said(out, files, count, status=status):
            say(line, stream=stream)
        return
    document = {
        "files": [str(file) for file in files],
        "format": "manifests",
        "definitions": count.definitions,
        "objects": count.objects,
        "leftOut": dict(sorted(count.left_out.items())),
        "ownersLeftOut": count.owned,
    }
    emit((), columns={}, output=output, document=document, stream=stream)


def _said(out: str, files: list[Path], count: "Count", *, status: bool) -> Iterator[str]:
    where = "standard output" if out == STDOUT else out
    definitions, objects = _counted(count.definitions, "definition"), _counted(count.objects, "object")
    yield WRITTEN.format(where=where, definitions=definitions, objects=objects)
    if count.left_out:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(count.left_out.items()))
        yield LEFT_OUT.format(kinds=kinds)
    if count.owned:
        yield OWNERS.format(objects=_counted(count.owned, "object"))
    if not status:
        yield NO_STATUS
    elif len(files) == 1:
        yield STATUS_INSIDE
    if out == STDOUT:
        return
    yield TO_APPLY
    apply = "  kubectl apply --server-side"
    first, *rest = (shlex.quote(str(file)) for file in files)
    if not rest:
        yield f"{apply} -f {first}{TWICE if count.definitions else ''}"
        return
    if count.definitions:
        yield f"{apply} -f {first}"
        yield f"  kubectl wait --for=condition=Established -f {first}"
    yield f"{apply} -f {rest[0]}"
    if count.statuses:
        yield f"{apply} --subresource=status --force-conflicts -f {rest[1]}"


# All of them


def _format_for(out: str) -> Format:
    return "manifests" if out.lower().endswith((".yaml", ".yml", ".json")) else "data"


def _refuse_existing(path: Path, *, force: bool) -> None:
    if path.exists() and not path.is_dir() and not force:
        raise BadInputError(EXISTS.format(path=path))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
