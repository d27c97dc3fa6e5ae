"""`fairway hub backup`, `restore` and `check`."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import click

from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.files.export import require_folder
from fairway.cli.hub.errors import store_errors
from fairway.cli.hub.manifests import STDOUT, targets, write
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.progress import progress
from fairway.cli.text import say
from kubehub.backup import key_problems, load, private_files, require_data, save
from kubehub.portable import Count
from kubehub.storage import archive

Format = Literal["data", "manifests"]
EXISTS: Final = "{path} already exists; name another file, or replace it with --force"
ONE_PLACE: Final = "give either a backup FILE or --data"
ONLY_MANIFESTS: Final = "--status requires --format manifests; a data backup always includes the status"
SAVED: Final = "{file}: {objects} at revision {revision}, and {keys}"
RESTORED: Final = "{folder}: restored {objects}, next revision {revision}; {keys}"
KEYS_BACK: Final = "keys restored: kubeconfigs and tokens stay valid"
KEYS_LACKING: Final = (
    "the backup contains no keys; if the folder has none, create them with `fairway hub renew-pki`"
)
FINE: Final = "{path}: no damage found, {objects} at revision {revision}"
NOT_FINE: Final = "{path} is damaged. Copy it before you replace it with `fairway hub restore --force`."
WRITTEN: Final = "{where}: {definitions} and {objects}"
LEFT_OUT: Final = "omitted, because every hub creates its own: {kinds}"
OWNERS: Final = "owner references omitted from {objects}: another hub assigns new uids"
NO_STATUS: Final = "status omitted (add --status to include it)"
STATUS_INSIDE: Final = (
    "kubectl does not apply the status of kinds with a status subresource; write to a folder to get a "
    "separate file"
)
TO_APPLY: Final = "apply it to another hub with:"
TWICE: Final = "  # run it twice if that hub lacks the CRDs: kubectl looks up all kinds first"


def backup(
    data: Path, out: str, format_: Format | None, status: bool, force: bool, output: OutputFormat
) -> None:
    if (format_ or _format_for(out)) == "manifests":
        _write_manifests(data, out, status=status, force=force, output=output)
        return
    if status:
        raise BadInputError(ONLY_MANIFESTS)
    file = Path(out)
    require_folder(file, option="--out")
    _refuse_existing(file, force=force)
    with store_errors(), progress("backing up", total=None):
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


def restore(file: Path, data: Path, force: bool, output: OutputFormat) -> None:
    with store_errors(), progress("restoring", total=None):
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


def check(file: Path | None, data: Path | None, output: OutputFormat) -> int:
    place = file or data
    if place is None or (file and data):
        raise click.UsageError(ONE_PLACE, click.get_current_context())
    with store_errors(), progress("checking", total=None):
        if place.is_dir():
            require_data(place)
        report = archive.check(place)
        rows: list[dict[str, object]] = [
            {"revision": problem.revision or None, "problem": problem.text} for problem in report.problems
        ]
        if report.revision:  # 0 if nothing could be read
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


def _write_manifests(data: Path, out: str, *, status: bool, force: bool, output: OutputFormat) -> None:
    files = targets(out, status=status)
    if out != STDOUT:
        for file in files:
            _refuse_existing(file, force=force)
    with store_errors(), private_files(), progress("writing", total=None):
        require_data(data)
        count = write(data, out, status=status)
    # Standard output may contain the manifests.
    stream = sys.stderr if out == STDOUT else sys.stdout
    if output == "table":
        for line in _summary(out, files, count, status=status):
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


def _summary(out: str, files: list[Path], count: Count, *, status: bool) -> Iterator[str]:
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


def _format_for(out: str) -> Format:
    return "manifests" if out.lower().endswith((".yaml", ".yml", ".json")) else "data"


def _refuse_existing(path: Path, *, force: bool) -> None:
    if path.exists() and not path.is_dir() and not force:
        raise BadInputError(EXISTS.format(path=path))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
