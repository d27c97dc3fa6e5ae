"""`fairway addon`: install Fairway's add-on on a hub, show its status, and remove it."""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Final

import click

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES, MANIFEST_WORKS
from fairway.cli.addon.selector import label_selector
from fairway.cli.addon.settings import check_settings
from fairway.cli.addon.status import COLUMNS as STATUS_COLUMNS
from fairway.cli.addon.status import NOT_INSTALLED, Report, report
from fairway.cli.addon.wait import hashes, wait_running
from fairway.cli.addon.writer import Step, is_offered, providers_of, remove, require_add_ons, written_for
from fairway.cli.addon.writer import install as write
from fairway.cli.client.session import talk
from fairway.cli.errors import EXIT_NO, EXIT_OK, NegativeAnswerError
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.options.wait import refuse_contradictions
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.providers.addon import (
    ADD_ONS,
    FAIRWAY,
    IMAGE,
    MANAGED_BY,
    SCORE_LABEL,
    VARIABLES,
    Plan,
    documents,
    parse_placement,
)
from kubewire.client import SYSTEM_CLOCK, Client, Informer, NotFound

UNKNOWN: Final = "unknown add-on {name!r}{hint}; known: {known}"
NEAR: Final = ", did you mean {near!r}?"
BAD_VARIABLE: Final = "{given!r} is not a setting; write NAME=VALUE"
UNKNOWN_VARIABLE: Final = "unknown setting {name!r}{hint}; known: {known}"
LONG_VALUE: Final = "the value of {name} is longer than 1,024 characters, the limit of the hub"
BAD_PLACEMENT: Final = "{given!r} is not a placement; write NAMESPACE/NAME"
ONE_CHOICE: Final = "--clusters, --placement and --all exclude each other: give one of them"
NAMESPACE_STAYS: Final = "namespace {name} is kept; delete it if it is not used otherwise"
NOTHING_THERE: Final = "add-on {name} is not installed"
LEFT: Final = (
    "still on {clusters}: the agent is removed when the {word} again; "
    "run this command again then, to delete scores published until then"
)
COLUMNS: Final = {"kind": "kind", "namespace": "namespace", "name": "name", "done": "done"}


def add_on(text: str) -> str:
    known = {
        **{provider: provider for provider in ADD_ONS},
        **{name: provider for provider, name in ADD_ONS.items()},
    }
    if text not in known:
        near = get_close_matches(text, known, n=1)
        hint = NEAR.format(near=known[near[0]]) if near else ""
        raise click.BadParameter(UNKNOWN.format(name=text, hint=hint, known=", ".join(ADD_ONS)))
    return known[text]


def placement(text: str) -> tuple[str, str]:
    chosen = parse_placement(text)
    if chosen is None:
        raise click.BadParameter(BAD_PLACEMENT.format(given=text))
    return chosen


def install(
    context: click.Context,
    name: str,
    namespace: str,
    image: str | None,
    clusters: str | None,
    chosen_by: tuple[str, str] | None,
    everywhere: bool,
    settings: tuple[str, ...],
    managed_cluster_scores: bool,
    take_over: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
    output: OutputFormat,
    hub: HubChoice,
) -> int:
    refuse_contradictions(context)
    if sum((clusters is not None, chosen_by is not None, everywhere)) > 1:
        raise click.UsageError(ONE_CHOICE)
    plan = Plan(
        provider=name,
        namespace=namespace,
        image=image or IMAGE,
        selector=None if clusters is None else label_selector(clusters),
        placement=chosen_by,
        variables=_variables(settings),
        managed_cluster_scores=managed_cluster_scores,
    )
    check_settings(plan)
    if dry_run and output != "table":
        items = list(documents(plan))
        emit(
            [], columns=COLUMNS, output=output, document={"apiVersion": "v1", "kind": "List", "items": items}
        )
        return EXIT_OK

    async def work(client: Client) -> None:
        before = await hashes(client, plan) if wait else {}
        steps = await write(client, plan, take_over=take_over, dry_run=dry_run)
        emit([step.row() for step in steps], columns=COLUMNS, output=output)
        if wait:
            await wait_running(client, plan, steps, before=before, seconds=timeout)

    talk(hub, work)
    return EXIT_OK


def status(name: str, output: OutputFormat, hub: HubChoice) -> int:
    async def work(client: Client) -> Report | None:
        await require_add_ons(client)
        return await report(client, add_on=ADD_ONS[name], provider=name, now=SYSTEM_CLOCK.wall())

    state = talk(hub, work)
    if state is None:
        raise NegativeAnswerError(NOT_INSTALLED.format(name=ADD_ONS[name], provider=name))
    if output == "table":
        say(state.summary())
    if state.clusters or output != "table":
        rows = [cluster.row() for cluster in state.clusters]
        emit(rows, columns=STATUS_COLUMNS, output=output, document=state.document())
    return EXIT_OK if state.healthy else EXIT_NO


def uninstall(name: str, timeout: float, dry_run: bool, output: OutputFormat, hub: HubChoice) -> int:
    async def work(client: Client) -> tuple[list[Step], list[str], list[str]]:
        return await _uninstall(client, name, timeout=timeout, dry_run=dry_run)

    steps, left, namespaces = talk(hub, work)
    beside = None if output == "table" else sys.stderr
    if not steps:
        say(NOTHING_THERE.format(name=ADD_ONS[name]), stream=beside)
    elif output == "table":
        emit([step.row() for step in steps], columns=COLUMNS)
    if output != "table":
        document = {"removed": [step.row() for step in steps], "left": left}
        emit([], columns=COLUMNS, output=output, document=document)
    elif steps:
        for namespace in namespaces:
            say(NAMESPACE_STAYS.format(name=namespace))
    if left:
        one = len(left) == 1
        word = "cluster responds" if one else "clusters respond"
        say(LEFT.format(clusters=", ".join(left), word=word), stream=beside)
        return EXIT_NO
    return EXIT_OK


async def _uninstall(
    client: Client, name: str, *, timeout: float, dry_run: bool
) -> tuple[list[Step], list[str], list[str]]:
    """Return the removed objects, the clusters that still have an agent, and the namespaces that are kept."""
    await require_add_ons(client)
    things = await written_for(client, ADD_ONS[name])
    namespaces = sorted({thing.metadata.namespace for _, thing in things if thing.metadata.namespace})
    offers = [thing for thing in things if thing[0].kind == "ClusterManagementAddOn"]
    steps = await remove(client, offers, dry_run=dry_run)
    left: list[str] = []
    if not dry_run and (offers or not await is_offered(client, ADD_ONS[name])):
        # Also if the ClusterManagementAddOn is deleted already: an interrupted run continues here.
        left = await _wait_removed(client, ADD_ONS[name], timeout=timeout)
    # Before the scores: a remaining agent loses the permission to publish them again.
    steps += await remove(client, [thing for thing in things if thing not in offers], dry_run=dry_run)
    providers = ",".join(sorted({name, *providers_of(things)}))
    labels = f"{MANAGED_BY}={FAIRWAY},{SCORE_LABEL} in ({providers})"
    scores = (await client.list(ADD_ON_PLACEMENT_SCORES, labels=labels)).items
    steps += await remove(client, [(ADD_ON_PLACEMENT_SCORES, score) for score in scores], dry_run=dry_run)
    with suppress(NotFound):  # most hubs do not serve this kind
        raw = (await client.list(MANAGED_CLUSTER_SCORES, labels=labels)).items
        steps += await remove(client, [(MANAGED_CLUSTER_SCORES, score) for score in raw], dry_run=dry_run)
    return steps, left, namespaces


async def _wait_removed(client: Client, add_on_name: str, *, timeout: float) -> list[str]:
    """Wait until the add-on's ManifestWorks are deleted, and return the clusters that still have one."""
    labels = f"open-cluster-management.io/addon-name={add_on_name}"
    try:
        there = (await client.list(MANIFEST_WORKS, labels=labels)).items
    except NotFound:
        return []  # the hub does not serve ManifestWorks
    if there and timeout:
        changed = asyncio.Event()
        async with Informer(client, MANIFEST_WORKS, labels=labels) as works:
            works.subscribe(lambda _: changed.set())
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await works.synced.wait()
                    while works.store:
                        changed.clear()
                        await changed.wait()
        there = (await client.list(MANIFEST_WORKS, labels=labels)).items
    return sorted({work.metadata.namespace for work in there})


def _variables(settings: tuple[str, ...]) -> Mapping[str, str]:
    variables: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(BAD_VARIABLE.format(given=setting))
        if name not in VARIABLES:
            near = get_close_matches(name.upper(), VARIABLES, n=1)
            hint = NEAR.format(near=near[0]) if near else ""
            known = ", ".join(VARIABLES)
            raise click.UsageError(UNKNOWN_VARIABLE.format(name=name, hint=hint, known=known))
        if len(value) > 1024:
            raise click.UsageError(LONG_VALUE.format(name=name))
        variables[name] = value
    return variables
