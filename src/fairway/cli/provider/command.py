"""`fairway provider`: run score providers, list them, and remove what they left on a hub."""

from typing import TYPE_CHECKING, Final

import click

from fairway.cli.client.session import HubChoice, hub_options, talk
from fairway.cli.clusterset import DRY_RUN, dry_run_option
from fairway.cli.output import OutputFormat, emit, output_option, say
from fairway.cli.provider.options import cluster_name as cluster_of
from fairway.cli.provider.run import run

if TYPE_CHECKING:
    from fairway.kube import Client

LISTED: Final = {"name": "Name", "from": "From", "meaning": "What it is"}
REMOVED: Final = "scores {cluster}/{resource} of provider {name} are removed"
NOTHING: Final = "there are no scores of provider {name} on the hub{hint}"
OTHERS: Final = "; there are scores of {names}"
BUILT_IN: Final = "fairway"


@click.group(
    short_help="Run score providers, and look after their scores.",
    epilog="""\b
Examples:
  fairway provider list
  fairway provider run queue.py --dry-run
  fairway provider run queue.py --cluster-name c1
  fairway provider run prometheus --config prometheus.yaml
  fairway provider cleanup queue

docs/how-to/providers.md says how to write one in ten minutes.
""",
)
def provider() -> None:
    """Run score providers, list them, and remove what they left on a hub.

    A provider reads raw values and publishes them as scores between -100 and 100, which placements follow.
    """


provider.add_command(run)


@provider.command(
    "list",
    short_help="Show the providers that can be run by name.",
    epilog="""\b
Examples:
  fairway provider list
  fairway provider list -o json
""",
)
@output_option
def list_providers(output: OutputFormat) -> None:
    """Show the providers that can be run by name: Fairway's own, and those of installed packages.

    A package brings one by an entry point of the group `fairway.providers`.
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
    short_help="Remove the scores of a provider from a hub.",
    epilog="""\b
Examples:
  fairway provider cleanup queue --dry-run
  fairway provider cleanup queue
  fairway provider cleanup queue --cluster-name c1
  fairway provider cleanup queue -o json

Stop the provider first: as long as it runs, it publishes its scores again.
""",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--cluster-name",
    type=cluster_of,
    metavar="NAME",
    help="Only the scores of this cluster.  [default: of all clusters]",
)
@dry_run_option
@output_option
@hub_options
def cleanup(name: str, cluster_name: str | None, dry_run: bool, output: OutputFormat, hub: HubChoice) -> None:
    """Remove the scores that the provider NAME left on a hub. Objects that Fairway did not make are never touched.

    NAME is what the label fairway.dev/provider of the scores says.
    """

    async def clean(client: "Client") -> None:
        from fairway.cli.provider.cleanup import cleaned

        found = await cleaned(client, provider=name, cluster=cluster_name, dry_run=dry_run)
        if output != "table":
            rows = [{"cluster": cluster, "resource": resource} for cluster, resource in found.removed]
            document = {"removed": rows, "others": list(found.others), "dryRun": dry_run}
            emit(rows, columns={}, output=output, document=document)
            return
        for cluster, resource in found.removed:
            words = REMOVED.format(cluster=cluster, resource=resource, name=name)
            say(f"{words}{DRY_RUN}" if dry_run else words)
        if not found.removed:
            hint = OTHERS.format(names=", ".join(found.others)) if found.others else ""
            say(NOTHING.format(name=name, hint=hint))

    talk(hub, clean)
