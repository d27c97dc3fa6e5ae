"""`fairway addon`: install Fairway's add-on on a hub, show its status, and remove it."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from fairway.cli.client.session import HubChoice, hub_options, talk
from fairway.cli.client.wait import refuse_contradictions, wait_options
from fairway.cli.errors import EXIT_NO, EXIT_OK
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.cli.addon.writer import Step
    from fairway.kube import Client

WAIT_SECONDS: Final = 60.0

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
    from fairway.providers.addon import ADD_ONS

    known = {**{each: each for each in ADD_ONS}, **{name: each for each, name in ADD_ONS.items()}}
    if text not in known:
        near = get_close_matches(text, known, n=1)
        hint = NEAR.format(near=known[near[0]]) if near else ""
        raise click.BadParameter(UNKNOWN.format(name=text, hint=hint, known=", ".join(ADD_ONS)))
    return known[text]


def placement(text: str) -> tuple[str, str]:
    from fairway.providers.addon import parse_placement

    found = parse_placement(text)
    if found is None:
        raise click.BadParameter(BAD_PLACEMENT.format(given=text))
    return found


_name: Final = click.argument("name", type=add_on, metavar="ADDON")


@click.group(
    short_help="Install Fairway's add-on on managed clusters.",
    epilog="""\b
Examples:
  fairway addon install resource-usage
  fairway addon status resource-usage
  fairway addon uninstall resource-usage
""",
)
def addon() -> None:
    """Manage Fairway's add-on: agents on managed clusters that publish scores on the hub.

    OCM's addon-manager deploys the agents; on a hub without OCM, `fairway run` does.
    """


@addon.command(
    short_help="Install or upgrade an add-on.",
    epilog="""\b
Examples:
  fairway addon install resource-usage                                  on all clusters
  fairway addon install resource-usage --clusters 'env in (prod,stage)'
  fairway addon install resource-usage --placement ns1/edge --set INTERVAL=5m
  fairway addon install resource-usage --image registry.example.com/fairway:0.1.0
  fairway addon install resource-usage --wait --timeout 300             wait for its agents
  fairway addon install resource-usage --dry-run -o yaml                print the objects, without a hub

\b
Settings for --set: PROVIDERS (providers to run), INTERVAL, VALID_FOR, MAXCPUCOUNT (cores that score 100),
MAXMEMCOUNT (MiB, or with a unit), SCORES (publish only these, of resource-usage), SCORE_FLOOR (score of the worst
value: 0, or -100 for OCM's symmetric form), PARITY (upstream-fixed for OCM's eight numbers), SCORE_NAME (name of the
AddOnPlacementScore), RATIOS (true adds ResourceRatioCPU and ResourceRatioMemory; the default with
--managed-cluster-scores), LOG_FORMAT. An AddOnDeploymentConfig for one cluster overrides them there.
With --wait, progress is printed to stderr.
Exit status: 0 installed, and with --wait available on all selected clusters; 1 --wait timed out; 2 bad input, or the
hub refused.
""",
)
@_name
@click.option(
    "-n",
    "--namespace",
    default="open-cluster-management-addon",
    show_default=True,
    metavar="NAME",
    help="Namespace of the placement and the settings; created if missing.",
)
@click.option(
    "--image", metavar="IMAGE", help="Container image of the agent.  [default: fairway of this version]"
)
@click.option("--clusters", metavar="SELECTOR", help="Install only on clusters with these labels.")
@click.option(
    "--placement",
    "chosen_by",
    type=placement,
    metavar="NAMESPACE/NAME",
    help="Install only on the clusters that this placement selects.",
)
@click.option("--all", "everywhere", is_flag=True, help="Install on all clusters (the default).")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Agent variable. Can be repeated."
)
@click.option(
    "--managed-cluster-scores",
    is_flag=True,
    help="Also publish raw values as ManagedClusterScores, and grant the agents the permission.",
)
@click.option(
    "--take-over", is_flag=True, help="Replace an add-on of this name that Fairway does not manage."
)
@wait_options("Wait until its agents are available on all selected clusters.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Send dry-run requests and write nothing; with -o yaml or json, print the objects without a hub.",
)
@output_option
@hub_options
@click.pass_context
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
    """Install an add-on: write its objects, its permissions, and the placement that selects its clusters.

    Objects that Fairway manages are updated; objects of other owners are kept.
    """
    from fairway.cli.addon.selector import label_selector
    from fairway.cli.addon.settings import check_settings
    from fairway.providers.addon import IMAGE, Plan, documents

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

    async def work(client: "Client") -> None:
        from fairway.cli.addon.wait import hashes, wait_running
        from fairway.cli.addon.writer import install as write

        before = await hashes(client, plan) if wait else {}
        steps = await write(client, plan, take_over=take_over, dry_run=dry_run)
        emit([each.row() for each in steps], columns=COLUMNS, output=output)
        if wait:
            await wait_running(client, plan, steps, before=before, seconds=timeout)

    talk(hub, work)
    return EXIT_OK


@addon.command(
    short_help="Show where an add-on runs and publishes.",
    epilog="""\b
Examples:
  fairway addon status resource-usage
  fairway addon status resource-usage -o json

\b
Exit status: 0 it runs and publishes on all selected clusters, 1 it does not, or is not installed, 2 bad input.
""",
)
@_name
@output_option
@hub_options
def status(name: str, output: OutputFormat, hub: HubChoice) -> int:
    """Show on how many clusters an add-on runs and publishes, and why not on the others."""
    from fairway.cli.addon.status import COLUMNS as STATUS_COLUMNS
    from fairway.cli.addon.status import NOT_INSTALLED, Report, report
    from fairway.kube import SYSTEM_CLOCK
    from fairway.providers.addon import ADD_ONS

    async def work(client: "Client") -> Report | None:
        from fairway.cli.addon.writer import require_add_ons

        await require_add_ons(client)
        return await report(client, add_on=ADD_ONS[name], provider=name, now=SYSTEM_CLOCK.wall())

    found = talk(hub, work)
    if found is None:
        say(NOT_INSTALLED.format(name=ADD_ONS[name], provider=name))
        return EXIT_NO
    if output == "table":
        say(found.summary())
    if found.clusters or output != "table":
        rows = [each.row() for each in found.clusters]
        emit(rows, columns=STATUS_COLUMNS, output=output, document=found.document())
    return EXIT_OK if found.healthy else EXIT_NO


@addon.command(
    short_help="Remove an add-on from the hub and all clusters.",
    epilog="""\b
Examples:
  fairway addon uninstall resource-usage
  fairway addon uninstall resource-usage --dry-run
  fairway addon uninstall resource-usage --timeout 300

\b
Agents are removed first, then the objects that install wrote, then the published scores.
Exit status: 0 removed, 1 still on clusters that do not respond, 2 bad input.
""",
)
@_name
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=WAIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the agents to be removed.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@output_option
@hub_options
def uninstall(name: str, timeout: float, dry_run: bool, output: OutputFormat, hub: HubChoice) -> int:
    """Remove an add-on: its agents from all clusters, the objects that install wrote, and the published scores.

    Objects of other owners and the namespace are kept.
    """
    from fairway.providers.addon import ADD_ONS

    async def work(client: "Client") -> "tuple[list[Step], list[str], list[str]]":
        return await _uninstall(client, name, timeout=timeout, dry_run=dry_run)

    steps, left, namespaces = talk(hub, work)
    if not steps:
        say(NOTHING_THERE.format(name=ADD_ONS[name]))
    elif output == "table":
        emit([each.row() for each in steps], columns=COLUMNS)
    if output != "table":
        document = {"removed": [each.row() for each in steps], "left": left}
        emit([], columns=COLUMNS, output=output, document=document)
    elif steps:
        for each in namespaces:
            say(NAMESPACE_STAYS.format(name=each))
    if left:
        one = len(left) == 1
        word = "cluster responds" if one else "clusters respond"
        say(LEFT.format(clusters=", ".join(left), word=word))
        return EXIT_NO
    return EXIT_OK


async def _uninstall(
    client: "Client", name: str, *, timeout: float, dry_run: bool
) -> "tuple[list[Step], list[str], list[str]]":
    """Return the removed objects, the clusters that still have an agent, and the namespaces that are kept."""
    from fairway.cli.addon.writer import is_offered, providers_of, remove, require_add_ons, written_for
    from fairway.kube import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES, NotFound
    from fairway.providers.addon import ADD_ONS, FAIRWAY, MANAGED_BY, SCORE_LABEL

    await require_add_ons(client)
    things = await written_for(client, ADD_ONS[name])
    namespaces = sorted({each.metadata.namespace for _, each in things if each.metadata.namespace})
    offers = [each for each in things if each[0].kind == "ClusterManagementAddOn"]
    steps = await remove(client, offers, dry_run=dry_run)
    left: list[str] = []
    if not dry_run and (offers or not await is_offered(client, ADD_ONS[name])):
        # Also if the ClusterManagementAddOn is deleted already: an interrupted run continues here.
        left = await _wait_removed(client, ADD_ONS[name], timeout=timeout)
    # Before the scores: a remaining agent loses the permission to publish them again.
    steps += await remove(client, [each for each in things if each not in offers], dry_run=dry_run)
    providers = ",".join(sorted({name, *providers_of(things)}))
    labels = f"{MANAGED_BY}={FAIRWAY},{SCORE_LABEL} in ({providers})"
    scores = (await client.list(ADD_ON_PLACEMENT_SCORES, labels=labels)).items
    steps += await remove(client, [(ADD_ON_PLACEMENT_SCORES, each) for each in scores], dry_run=dry_run)
    with suppress(NotFound):  # most hubs do not serve this kind
        raw = (await client.list(MANAGED_CLUSTER_SCORES, labels=labels)).items
        steps += await remove(client, [(MANAGED_CLUSTER_SCORES, each) for each in raw], dry_run=dry_run)
    return steps, left, namespaces


async def _wait_removed(client: "Client", add_on_name: str, *, timeout: float) -> list[str]:
    """Wait until the add-on's ManifestWorks are deleted, and return the clusters that still have one."""
    from fairway.kube import MANIFEST_WORKS, Informer, NotFound

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
    return sorted({each.metadata.namespace for each in there})


def _variables(settings: tuple[str, ...]) -> Mapping[str, str]:
    from fairway.providers.addon import VARIABLES

    found: dict[str, str] = {}
    for each in settings:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.UsageError(BAD_VARIABLE.format(given=each))
        if name not in VARIABLES:
            near = get_close_matches(name.upper(), VARIABLES, n=1)
            hint = NEAR.format(near=near[0]) if near else ""
            known = ", ".join(VARIABLES)
            raise click.UsageError(UNKNOWN_VARIABLE.format(name=name, hint=hint, known=known))
        if len(value) > 1024:
            raise click.UsageError(LONG_VALUE.format(name=name))
        found[name] = value
    return found
