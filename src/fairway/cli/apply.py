"""`fairway apply`: apply objects of any kind to a hub by server-side apply, as `kubectl apply --server-side` does."""

from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.client.session import HubChoice, hub_options, talk
from fairway.cli.clusterset import DRY_RUN, dry_run_option
from fairway.cli.errors import EXIT_OK, InputProblemsError, Problem
from fairway.cli.output import cell, say

if TYPE_CHECKING:
    from fairway.kube import Client

Kinds = dict[tuple[str, str], tuple[str, bool]]
"""Plural name and whether it is namespaced, by apiVersion and kind."""

FIELD_MANAGER: Final = "fairway-apply"
RESULT: Final = "{name} {done}"
NOT_AN_OBJECT: Final = "not a Kubernetes object: apiVersion, kind and metadata.name are required"
NOT_SERVED: Final = "the hub does not serve kind {kind} of {version}"
INSTALL: Final = "install its CRD first"
FORCE: Final = "take the fields over with --force-conflicts, or remove them from the file"


@click.command(
    short_help="Apply objects in files to a hub.",
    epilog="""\b
Examples:
  fairway apply -f examples/most-free-cpu.yaml
  fairway apply -f placements/ --dry-run
  fairway up --example | fairway apply -f -

\b
Objects of all kinds are applied, in the order of the files, with the field manager fairway-apply. If the hub refuses
one, the others are applied. To apply a whole fleet with its status, use `fairway fleet apply`.
Exit status: 0 applied, 2 bad input, or the hub refused an object.
""",
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR",
    help="YAML or JSON file with Kubernetes objects, plain or gzipped; a directory; - for standard input. "
    "Can be repeated.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other managers own.")
@dry_run_option
@hub_options
def apply(files: tuple[str, ...], force_conflicts: bool, dry_run: bool, hub: HubChoice) -> int:
    """Apply objects in files to a hub."""
    objects = _read(files)
    problems: list[Problem] = []

    async def work(client: "Client") -> None:
        from fairway.kube.errors import BadRequest, Conflict, Invalid, NotFound

        kinds: Kinds = {}
        for file, line, document in objects:
            group = document["apiVersion"].rpartition("/")[0]
            kind = document["kind"].lower() + (f".{group}" if group else "")
            name = cell(f"{kind}/{document['metadata']['name']}")
            try:
                done = await _apply(client, kinds, document, force=force_conflicts, dry_run=dry_run)
            except (BadRequest, Conflict, Invalid, NotFound) as error:
                message, remedy = cell(error.message), FORCE if isinstance(error, Conflict) else ""
                done = ""
            else:
                message = NOT_SERVED.format(kind=cell(document["kind"]), version=cell(document["apiVersion"]))
                remedy = INSTALL
            if not done:
                problems.append(Problem(file=file, line=line, subject=name, message=message, remedy=remedy))
                continue
            say(RESULT.format(name=name, done=done) + (DRY_RUN if dry_run else ""))

    talk(hub, work)
    if problems:
        raise InputProblemsError(problems)
    return EXIT_OK


def _read(files: tuple[str, ...]) -> list[tuple[str, int, dict[str, Any]]]:
    """Return file, line and object, after parsing all files. Raises InputProblemsError."""
    from fairway.cli.files import sources
    from fairway.cli.files.loader import documents_in, malformed
    from fairway.documents.parser import DocumentError
    from fairway.documents.reader import value_of

    problems: list[Problem] = []
    found: list[tuple[str, int, dict[str, Any]]] = []
    for path in sources.find_files(files, problems=problems):
        try:
            source = sources.read(path)
            for document in documents_in(source):
                value = value_of(document)
                is_list = isinstance(value, dict) and str(value.get("kind", "")).endswith("List")
                items = (value.get("items") or ()) if is_list else [value]
                lines = document.item_lines if is_list else ()
                for number, each in enumerate(items):
                    line = lines[number] if number < len(lines) else document.line
                    if _is_object(each):
                        found.append((source.name, line, each))
                    else:
                        problems.append(Problem(file=source.name, line=line, message=NOT_AN_OBJECT))
        except sources.SourceError as error:
            problems.append(error.problem)
        except DocumentError as error:
            problems.append(malformed(source, error))
    if problems:
        raise InputProblemsError(problems)
    return found


def _is_object(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return False
    names = (value.get("apiVersion"), value.get("kind"), value["metadata"].get("name"))
    return all(isinstance(each, str) and each for each in names) and "/" not in value["metadata"]["name"]


async def _apply(
    client: "Client", kinds: Kinds, document: dict[str, Any], *, force: bool, dry_run: bool
) -> str:
    """Return what was done; empty if the hub does not serve the kind."""
    import msgspec

    from fairway.kube import NotFound

    version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if (version, kind) not in kinds:
        try:
            served = msgspec.json.decode((await client.request("GET", root)).body)["resources"]
        except NotFound:
            served = []
        plain = [each for each in served if "/" not in each["name"]]
        kinds |= {(version, each["kind"]): (each["name"], each["namespaced"]) for each in plain}
    if (version, kind) not in kinds:
        return ""
    plural, namespaced = kinds[version, kind]
    namespace = metadata.get("namespace") or client.namespace
    path = f"{root}/namespaces/{namespace}/{plural}" if namespaced else f"{root}/{plural}"
    path = f"{path}/{metadata['name']}"
    try:
        before = msgspec.json.decode((await client.request("GET", path)).body)["metadata"]
    except NotFound:
        before = None
    query = [("fieldManager", FIELD_MANAGER), ("force", "true" if force else "false")]
    if dry_run:
        query.append(("dryRun", "All"))
    answer = await client.request(
        "PATCH", path, query=query, body=document, content_type="application/apply-patch+yaml"
    )
    if before is None:
        return "created"
    after = msgspec.json.decode(answer.body)["metadata"]
    return "unchanged" if after.get("resourceVersion") == before.get("resourceVersion") else "configured"
