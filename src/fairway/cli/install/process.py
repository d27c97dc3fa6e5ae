"""Print an installation, compare it with a hub, and delete it there."""

import asyncio
import sys
from typing import Final, Literal

import click

from fairway.cli.client.hub_objects import HubObjects, name_of
from fairway.cli.client.session import connection_to, talk
from fairway.cli.errors import EXIT_NO, EXIT_OK, NegativeAnswerError
from fairway.cli.files.export import export
from fairway.cli.install.differences import Difference, differences
from fairway.cli.install.removal import agent_roles, data, definitions, delete, installed
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.report import ChangeReport
from fairway.cli.text import cell, say
from fairway.install.installation import Document, Installation, Mode, documents
from kubewire.client import Client

FIELD_MANAGER: Final = "fairway-install"
SAME: Final = "The hub has this installation: nothing would change."
NOTHING: Final = "Nothing of Fairway is installed on {server}."
KEPT: Final = "Kept: {kept} and the CRDs. --delete-data deletes them, too."
SURE: Final = "Delete {count} objects from {server}?"
NOT_SURE: Final = "nothing was deleted: confirm on a terminal, or with --yes"
LEFT: Final = "not deleted within {seconds:g} seconds: {names}; {why}"
HELD: Final = "finalizers of controllers that must run to remove them: {finalizers}"
NOT_HELD: Final = "run the command again to continue"
Plan = list[list[Document]]
"""What is deleted; each group when the one before does not exist any more."""


def install(
    *,
    mode: str,
    controllers: frozenset[str] | None,
    image: str | None,
    namespace: str,
    replicas: int | None,
    ocm_namespace: str,
    crds: bool,
    monitoring: bool,
    diff: bool,
    output: Literal["yaml", "json", "table"] | None,
    hub: HubChoice,
) -> int:
    """Print the objects, or with ``diff`` what they would change on the hub."""
    wanted = Installation(
        mode=Mode(mode),
        controllers=controllers,
        **({} if image is None else {"image": image}),
        namespace=namespace,
        replicas=replicas,
        ocm_namespace=ocm_namespace,
        crds=crds,
        monitoring=monitoring,
    )
    if not diff:
        if output == "table":
            rows = [
                {
                    "object": name_of(document),
                    "namespace": document["metadata"].get("namespace", ""),
                }
                for document in documents(wanted)
            ]
            emit(rows, columns={"object": "object", "namespace": "namespace"})
            return EXIT_OK
        export(documents(wanted), out=None, output=output or "yaml")
        return EXIT_OK

    async def compare(client: Client) -> list[Difference]:
        return await differences(HubObjects(client, field_manager=FIELD_MANAGER), documents(wanted))

    changes = talk(hub, compare)
    if output in (None, "table") and not changes:
        say(SAME)
    else:
        rows = [difference.row() for difference in changes]
        emit(rows, columns={key: key for key in ("change", "object", "fields")}, output=output or "table")
    return EXIT_NO if changes else EXIT_OK


def uninstall(
    *, delete_data: bool, yes: bool, dry_run: bool, timeout: float, output: OutputFormat, hub: HubChoice
) -> int:
    """Delete the installation, after a confirmation."""
    server = connection_to(hub).server

    async def plan(client: Client) -> Plan:
        objects = HubObjects(client, field_manager=FIELD_MANAGER)
        crds = await definitions(objects, _definitions())
        kept, objects_installed = await data(objects, crds), [part async for part in installed(objects)]
        if delete_data:
            return [kept, objects_installed, [*crds, *await _roles(objects, crds)]]
        if kept and objects_installed:
            say(KEPT.format(kept=_counted(kept)), stream=sys.stderr)
        return [objects_installed]

    async def carry_out(client: Client) -> None:
        objects = HubObjects(client, field_manager=FIELD_MANAGER)
        async with asyncio.timeout(timeout):
            for group in planned:
                await delete(objects, group, report=lambda document: _report_deleted(report, document))

    async def left(client: Client) -> list[Document]:
        objects = HubObjects(client, field_manager=FIELD_MANAGER)
        live = [await objects.get(document) for group in planned for document in group]
        return [document for document in live if document is not None]

    planned = talk(hub, plan)
    count = sum(map(len, planned))
    if not count:
        with ChangeReport(output) as report:
            report.note(NOTHING.format(server=server))
        return EXIT_OK
    if dry_run:
        with ChangeReport(output, dry_run=True) as report:
            for group in planned:
                for document in group:
                    _report_deleted(report, document)
        return EXIT_OK
    if not yes and not (
        sys.stdin.isatty() and click.confirm(SURE.format(count=count, server=server), err=True)
    ):
        raise NegativeAnswerError(NOT_SURE)
    with ChangeReport(output) as report:
        try:
            talk(hub, carry_out)
        except TimeoutError:
            raise NegativeAnswerError(_unfinished(talk(hub, left), seconds=timeout)) from None
    return EXIT_OK


def _report_deleted(report: ChangeReport, document: Document) -> None:
    meta = document["metadata"]
    report.add(
        f"{cell(name_of(document))} deleted",
        kind=document["kind"],
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        result="deleted",
    )


async def _roles(objects: HubObjects, crds: list[Document]) -> list[Document]:
    """Return the roles of agents, which are OCM's where the clusters are."""
    has_clusters = any(definition["spec"]["names"]["kind"] == "ManagedCluster" for definition in crds)
    return await agent_roles(objects) if has_clusters else []


def _definitions() -> frozenset[str]:
    """Return the names of the CRDs of a standalone hub."""
    return frozenset(
        document["metadata"]["name"]
        for document in documents(Installation())
        if document["kind"] == "CustomResourceDefinition"
    )


def _counted(kept: list[Document]) -> str:
    kinds = [document["kind"] for document in kept]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def _unfinished(left: list[Document], *, seconds: float) -> str:
    finalizers = sorted({name for document in left for name in document["metadata"].get("finalizers", ())})
    why = HELD.format(finalizers=", ".join(finalizers)) if finalizers else NOT_HELD
    return LEFT.format(seconds=seconds, names=", ".join(map(name_of, left[:10])), why=why)
