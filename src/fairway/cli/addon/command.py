"""`fairway addon`: install Fairway's add-on on a hub, see how it is, and remove it again."""

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

UNKNOWN: Final = "there is no add-on {name!r}{hint}; there is {known}"
NEAR: Final = ", did you mean {near!r}?"
BAD_VARIABLE: Final = "{given!r} is no setting: write NAME=VALUE"
UNKNOWN_VARIABLE: Final = "there is no setting {name!r}{hint}; there are {known}"
LONG_VALUE: Final = "the value of {name} is longer than 1024 characters, which is all a hub takes"
BAD_PLACEMENT: Final = "{given!r} names no placement: write NAMESPACE/NAME"
ONE_CHOICE: Final = "--clusters, --placement and --all each say for which clusters: give one of them"
NAMESPACE_STAYS: Final = "namespace {name} stays; remove it if nothing else is in it"
NOTHING_THERE: Final = "add-on {name} is not installed: nothing of it is there"
LEFT: Final = (
    "still on {clusters}: the agent is removed as soon as {they} {answer}; "
    "run this again to remove what it may publish until then"
)

COLUMNS: Final = {"kind": "kind", "namespace": "namespace", "name": "name", "done": "done"}


def add_on(text: str) -> str:
    from fairway.cli.addon.objects import ADD_ONS

    known = {**{each: each for each in ADD_ONS}, **{name: each for each, name in ADD_ONS.items()}}
    if text not in known:
        near = get_close_matches(text, known, n=1)
        hint = NEAR.format(near=known[near[0]]) if near else ""
        raise click.BadParameter(UNKNOWN.format(name=text, hint=hint, known=", ".join(ADD_ONS)))
    return known[text]


def placement(text: str) -> tuple[str, str]:
    from fairway.cli.addon.objects import placement_of

    found = placement_of(text)
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
    """The add-on that comes with Fairway: agents on managed clusters that publish scores on the hub.

    On a hub with Open Cluster Management its addon-manager brings them to the clusters; elsewhere `fairway run` does.
    """


@addon.command(
    short_help="Write what brings it to the clusters; again to upgrade.",
    epilog="""\b
Examples:
  fairway addon install resource-usage                                  on all clusters
  fairway addon install resource-usage --clusters 'env in (prod,stage)'
  fairway addon install resource-usage --placement ns1/edge --set INTERVAL=5m
  fairway addon install resource-usage --image registry.example.com/fairway:0.1.0
  fairway addon install resource-usage --wait --timeout 300             until its agents run on all of them
  fairway addon install resource-usage --dry-run -o yaml                print it, for GitOps; no hub is asked

\b
Settings for --set: PROVIDERS (what the agent runs), INTERVAL, VALID_FOR, MAXCPUCOUNT (cores that score 100),
MAXMEMCOUNT (MiB, or with a unit), SCORES (only these, of resource-usage), SCORE_FLOOR (what the worst value scores:
0, or -100 for OCM's symmetric form), PARITY (upstream-fixed for OCM's eight numbers), SCORE_NAME (of the
AddOnPlacementScore), RATIOS (true adds ResourceRatioCPU and ResourceRatioMemory; the default with
--managed-cluster-scores), LOG_FORMAT. A cluster gets others by an AddOnDeploymentConfig of its own.
With --wait, what is still missing is told on stderr.
Exit status: 0 installed, and with --wait available on all clusters that are chosen; 1 with --wait, the time is up;
2 bad input, or the hub refuses.
""",
)
@_name
@click.option(
    "-n",
    "--namespace",
    default="open-cluster-management-addon",
    show_default=True,
    metavar="NAME",
    help="For the placement and the settings; it is made if it is not there.",
)
@click.option("--image", metavar="IMAGE", help="Image of the agent.  [default: fairway of this version]")
@click.option("--clusters", metavar="SELECTOR", help="Only on clusters with these labels.")
@click.option(
    "--placement",
    "chosen_by",
    type=placement,
    metavar="NAMESPACE/NAME",
    help="Only on the clusters that this placement chooses.",
)
@click.option("--all", "everywhere", is_flag=True, help="On all clusters, which is the default.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; may be repeated.")
@click.option(
    "--managed-cluster-scores",
    is_flag=True,
    help="Have the agents publish raw values besides, as ManagedClusterScores, and give them the rights for that.",
)
@click.option("--take-over", is_flag=True, help="Replace an add-on of this name that Fairway did not write.")
@wait_options("Until its agents are available on all clusters that are chosen.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Ask the hub whether it would work, and write nothing; with -o yaml or json print what would be written.",
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
    """Write what brings an add-on to managed clusters: what it consists of, its rights, and where it is wanted.

    What Fairway wrote before is brought up to date; what somebody else wrote is left alone.
    """
    from fairway.cli.addon.objects import IMAGE, Plan, documents
    from fairway.cli.addon.selector import label_selector
    from fairway.cli.addon.settings import check_settings

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
        from fairway.cli.addon.wait import hashes, running
        from fairway.cli.addon.writer import install as write

        before = await hashes(client, plan) if wait else {}
        steps = await write(client, plan, take_over=take_over, dry_run=dry_run)
        emit([each.row() for each in steps], columns=COLUMNS, output=output)
        if wait:
            await running(client, plan, steps, before=before, seconds=timeout)

    talk(hub, work)
    return EXIT_OK


@addon.command(
    short_help="How many clusters it runs on and publishes for.",
    epilog="""\b
Examples:
  fairway addon status resource-usage
  fairway addon status resource-usage -o json

\b
Exit status: 0 it runs and publishes everywhere it is wanted, 1 it does not, or is not installed, 2 bad input.
""",
)
@_name
@output_option
@hub_options
def status(name: str, output: OutputFormat, hub: HubChoice) -> int:
    """On how many clusters an add-on runs and publishes; and on the others, why not."""
    from fairway.cli.addon.objects import ADD_ONS
    from fairway.cli.addon.status import COLUMNS as STATUS_COLUMNS
    from fairway.cli.addon.status import NOT_INSTALLED, Report, report
    from fairway.kube import SYSTEM_CLOCK

    async def work(client: "Client") -> Report | None:
        from fairway.cli.addon.writer import refuse_without_add_ons

        await refuse_without_add_ons(client)
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
    return EXIT_OK if found.well else EXIT_NO


@addon.command(
    short_help="Remove it from the hub and from all clusters.",
    epilog="""\b
Examples:
  fairway addon uninstall resource-usage
  fairway addon uninstall resource-usage --dry-run
  fairway addon uninstall resource-usage --timeout 300

\b
The agents go first, then what install wrote, then the scores they published.
Exit status: 0 it is gone, 1 it is still on clusters that do not answer, 2 bad input.
""",
)
@_name
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=WAIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the agents to be gone.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@output_option
@hub_options
def uninstall(name: str, timeout: float, dry_run: bool, output: OutputFormat, hub: HubChoice) -> int:
    """Remove an add-on: its agents from all clusters, what install wrote, and the scores that were published.

    What somebody else wrote stays, and so does the namespace.
    """
    from fairway.cli.addon.objects import ADD_ONS

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
        words = {"they": "it" if one else "they", "answer": "answers" if one else "answer"}
        say(LEFT.format(clusters=", ".join(left), **words))
        return EXIT_NO
    return EXIT_OK


async def _uninstall(
    client: "Client", name: str, *, timeout: float, dry_run: bool
) -> "tuple[list[Step], list[str], list[str]]":
    """What was removed, clusters that still have an agent, and namespaces that stay."""
    from fairway.cli.addon.objects import ADD_ONS, FAIRWAY, MANAGED_BY, SCORE_LABEL
    from fairway.cli.addon.writer import (
        is_offered,
        providers_of,
        refuse_without_add_ons,
        remove,
        written_for,
    )
    from fairway.kube import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES, NotFound

    await refuse_without_add_ons(client)
    things = await written_for(client, ADD_ONS[name])
    namespaces = sorted({each.metadata.namespace for _, each in things if each.metadata.namespace})
    offers = [each for each in things if each[0].kind == "ClusterManagementAddOn"]
    steps = await remove(client, offers, dry_run=dry_run)
    left: list[str] = []
    if not dry_run and (offers or not await is_offered(client, ADD_ONS[name])):
        # Also if the offer went before: whoever was interrupted goes on here.
        left = await _gone(client, ADD_ONS[name], timeout=timeout)
    # Before the scores: an agent that is still there has no right any more to publish them anew.
    steps += await remove(client, [each for each in things if each not in offers], dry_run=dry_run)
    providers = ",".join(sorted({name, *providers_of(things)}))
    labels = f"{MANAGED_BY}={FAIRWAY},{SCORE_LABEL} in ({providers})"
    scores = (await client.list(ADD_ON_PLACEMENT_SCORES, labels=labels)).items
    steps += await remove(client, [(ADD_ON_PLACEMENT_SCORES, each) for each in scores], dry_run=dry_run)
    with suppress(NotFound):  # a kind that most hubs do not have
        raw = (await client.list(MANAGED_CLUSTER_SCORES, labels=labels)).items
        steps += await remove(client, [(MANAGED_CLUSTER_SCORES, each) for each in raw], dry_run=dry_run)
    return steps, left, namespaces


async def _gone(client: "Client", add_on_name: str, *, timeout: float) -> list[str]:
    """Waits for the works of the add-on to be gone: they stay until the cluster has removed what they brought."""
    from fairway.kube import MANIFEST_WORKS, Informer, NotFound

    labels = f"open-cluster-management.io/addon-name={add_on_name}"
    try:
        there = (await client.list(MANIFEST_WORKS, labels=labels)).items
    except NotFound:
        return []  # nobody brings works anywhere
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
    from fairway.cli.addon.objects import VARIABLES

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
