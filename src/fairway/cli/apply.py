"""`fairway apply`: apply objects of any kind to a hub by server-side apply, as `kubectl apply --server-side` does."""

from typing import Any, Final

from fairway.cli.client.hub_objects import HubObjects, NotServed, name_of
from fairway.cli.client.messages import explain_error
from fairway.cli.client.session import talk
from fairway.cli.errors import EXIT_OK, InputProblemsError, Problem
from fairway.cli.files import sources
from fairway.cli.files.loader import documents_in, malformed
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.report import ChangeReport
from fairway.cli.text import cell
from kubewire.client import Client
from kubewire.client.errors import ApiError, Conflict, Forbidden, Unauthorized
from kubewire.documents.parser import DocumentError
from kubewire.documents.reader import value_of

FIELD_MANAGER: Final = "fairway-apply"
RESULT: Final = "{name} {done}"
NOT_AN_OBJECT: Final = "not a Kubernetes object: apiVersion, kind and metadata.name are required"
NOT_SERVED: Final = "the hub does not serve kind {kind} of {version}"
INSTALL: Final = "install its CRD first"
FORCE: Final = "take the fields over with --force-conflicts, or remove them from the file"


def apply(
    files: tuple[str, ...], force_conflicts: bool, dry_run: bool, output: OutputFormat, hub: HubChoice
) -> int:
    objects = _read(files)
    problems: list[Problem] = []

    async def work(client: Client) -> None:
        on_hub = HubObjects(client, field_manager=FIELD_MANAGER)
        for file, line, document in objects:
            name = cell(name_of(document))
            done = ""
            try:
                done = await _apply(on_hub, document, force=force_conflicts, dry_run=dry_run)
            except NotServed:
                message = NOT_SERVED.format(kind=cell(document["kind"]), version=cell(document["apiVersion"]))
                remedy = INSTALL
            except Unauthorized:
                raise  # the credentials, whose fault it is, are those of all objects
            except Forbidden as error:
                message, remedy = explain_error(error, hub=hub, connection=client.connection), ""
            except ApiError as error:
                # Also 500: a kube-apiserver gives it for fields of a wrong type.
                message, remedy = cell(error.message), FORCE if isinstance(error, Conflict) else ""
            if not done:
                problems.append(Problem(file=file, line=line, subject=name, message=message, remedy=remedy))
                continue
            meta = document["metadata"]
            report.add(
                RESULT.format(name=name, done=done),
                kind=document["kind"],
                namespace=meta.get("namespace", ""),
                name=meta["name"],
                result=done,
            )

    with ChangeReport(output, dry_run=dry_run) as report:
        talk(hub, work)
    if problems:
        raise InputProblemsError(problems)
    return EXIT_OK


def _read(files: tuple[str, ...]) -> list[tuple[str, int, dict[str, Any]]]:
    """Return file, line and object, after parsing all files. Raises InputProblemsError."""
    problems: list[Problem] = []
    objects: list[tuple[str, int, dict[str, Any]]] = []
    for path in sources.find_files(files, problems=problems):
        try:
            source = sources.read(path)
            for document in documents_in(source):
                value = value_of(document)
                is_list = isinstance(value, dict) and str(value.get("kind", "")).endswith("List")
                items = (value.get("items") or ()) if is_list else [value]
                lines = document.item_lines if is_list else ()
                for number, item in enumerate(items):
                    line = lines[number] if number < len(lines) else document.line
                    if _is_object(item):
                        objects.append((source.name, line, item))
                    else:
                        problems.append(Problem(file=source.name, line=line, message=NOT_AN_OBJECT))
        except sources.SourceError as error:
            problems.append(error.problem)
        except DocumentError as error:
            problems.append(malformed(source, error))
    if problems:
        raise InputProblemsError(problems)
    return objects


def _is_object(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return False
    names = (value.get("apiVersion"), value.get("kind"), value["metadata"].get("name"))
    return all(isinstance(name, str) and name for name in names) and "/" not in value["metadata"]["name"]


async def _apply(objects: HubObjects, document: dict[str, Any], *, force: bool, dry_run: bool) -> str:
    """Return what was done. Raises NotServed."""
    before = await objects.get(document)
    after = await objects.apply(document, force=force, dry_run=dry_run)
    if before is None:
        return "created"
    unchanged = after["metadata"].get("resourceVersion") == before["metadata"].get("resourceVersion")
    return "unchanged" if unchanged else "configured"
