"""`fairway provider`: run score providers, list them, and delete their scores from a hub."""

from typing import TYPE_CHECKING, Final

import click

from fairway.cli.client.session import HubChoice, hub_options, talk
from fairway.cli.clusterset import DRY_RUN, dry_run_option
from fairway.cli.output import OutputFormat, emit, output_option, say
from fairway.cli.provider.options import cluster_name as cluster_of
from fairway.cli.provider.run import run

if TYPE_CHECKING:
    from fairway.kube import Client

LISTED: Final = {"name": "Name", "from": "From", "meaning": "Description"}
REMOVED: Final = "scores {cluster}/{resource} of provider {name} deleted"
NOTHING: Final = "the hub has no scores of provider {name}{hint}"
OTHERS: Final = "; it has scores of {names}"
BUILT_IN: Final = "fairway"


@click.group(
    short_help="Run score providers, and manage their scores.",
    epilog="""\b
Examples:
  fairway provider list
  fairway provider run queue.py --dry-run
  fairway provider run queue.py --cluster-name c1
  fairway provider run prometheus --config prometheus.yaml
  fairway provider cleanup queue

To write one, see docs/how-to/providers.md.
""",
)
def provider() -> None:
    """Run score providers, list them, and delete their scores from a hub.

    A provider reads raw values and publishes them as scores between -100 and 100 for placements.
    """


provider.add_command(run)


@provider.command(
    "list",
    short_help="List the providers that can be run by name.",
    epilog="""\b
Examples:
  fairway provider list
  fairway provider list -o json
""",
)
@output_option
def list_providers(output: OutputFormat) -> None:
    """List the providers that can be run by name: the built-in ones, and those of installed packages.

    A package registers a provider with an entry point of the group `fairway.providers`.
    """
    from fairway.providers.catalogue import CATALOGUE
    from fairway.providers.loading import installed

    rows = [
        {"name": name, "from": BUILT_IN, "meaning": entry.meaning}
        for name, entry in sorted(CATALOGUE.items())
    ]
    rows += [
        {"name": name, "from": point.dist.name if point.dist else "", "meaning": point.value}
        for name, point in sorted(installed().items())
    ]
    emit(rows, columns=LISTED, output=output)


@provider.command(
    short_help="Delete the scores of a provider from a hub.",
    epilog="""\b
Examples:
  fairway provider cleanup queue --dry-run
  fairway provider cleanup queue
  fairway provider cleanup queue --cluster-name c1
  fairway provider cleanup queue -o json

Stop the provider first: while it runs, it publishes its scores again.
""",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--cluster-name",
    type=cluster_of,
    metavar="NAME",
    help="Delete only the scores of this cluster.  [default: all clusters]",
)
@dry_run_option
@output_option
@hub_options
def cleanup(name: str, cluster_name: str | None, dry_run: bool, output: OutputFormat, hub: HubChoice) -> None:
    """Delete the scores of the provider NAME from a hub. Objects that Fairway does not manage are kept.

    NAME is the value of the label fairway.dev/provider of the scores.
    """

    async def clean(client: "Client") -> None:
        from fairway.cli.provider.cleanup import delete_scores

        found = await delete_scores(client, provider=name, cluster=cluster_name, dry_run=dry_run)
        if output != "table":
            rows = [{"cluster": cluster, "resource": resource} for cluster, resource in found.removed]
            document = {"removed": rows, "others": list(found.others), "dryRun": dry_run}
            emit(rows, columns={}, output=output, document=document)
            return
        for cluster, resource in found.removed:
            text = REMOVED.format(cluster=cluster, resource=resource, name=name)
            say(f"{text}{DRY_RUN}" if dry_run else text)
        if not found.removed:
            hint = OTHERS.format(names=", ".join(found.others)) if found.others else ""
            say(NOTHING.format(name=name, hint=hint))

    talk(hub, clean)
