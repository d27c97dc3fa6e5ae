"""Declaration of `fairway install`: its options and its help."""

import re
from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.controllers import DEFAULT_CONTROLLERS, NAMES, chosen
from fairway.cli.options.hub import hub_options

MODES: Final = ("standalone", "ocm", "shadow")
NOT_A_NAMESPACE: Final = "{name!r} is not the name of a namespace; write lower-case letters, digits and -"
ONLY_PLACEMENT: Final = "--mode shadow runs the controller placement only; leave --controllers out"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


def _namespace(name: str) -> str:
    if not _NAMESPACE.match(name):
        raise click.BadParameter(NOT_A_NAMESPACE.format(name=name))
    return name


def _controllers(
    context: click.Context, _parameter: click.Parameter, text: str | None
) -> frozenset[str] | None:
    if text is None:
        return None
    mode = context.params.get("mode", MODES[0])
    if mode == "shadow":
        raise click.UsageError(ONLY_PLACEMENT)
    return chosen(text, default=DEFAULT_CONTROLLERS if mode == "standalone" else ("placement",))


@click.command(
    short_help="Print the manifests of Fairway, ready for kubectl apply.",
    epilog="""\b
Examples:
  fairway install | kubectl apply -f -
  fairway install --controllers=+hosting,+machines | kubectl apply -f -
  fairway install --mode shadow --image registry.example/fairway:0.1.0 | kubectl apply -f -
  fairway install --diff                     what applying it would change on the hub
  fairway install -o table                   names of the objects

\b
Modes: standalone for a hub without OCM, with all CRDs; ocm instead of OCM's placement controller, with Fairway's own
CRDs; shadow beside it, which compares decisions and writes nothing. `fairway uninstall` deletes what was installed.
Exit status: 0 printed, or nothing would change; 1 --diff found changes; 2 bad input, or the hub is unreachable.
""",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default=MODES[0],
    show_default=True,
    is_eager=True,
    help="What the hub has of OCM.",
)
@click.option(
    "--controllers",
    callback=_controllers,
    metavar="NAMES",
    help="Controllers to run, separated by commas; -NAME removes one, +NAME adds one. Known: "
    f"{', '.join(NAMES)}.  [default: those of the mode]",
)
@click.option("--image", metavar="IMAGE", help="Image of the pods.  [default: fairway with this version]")
@click.option(
    "--namespace",
    type=_namespace,
    default="fairway-system",
    show_default=True,
    metavar="NAME",
    help="Namespace of the pods and Leases.",
)
@click.option(
    "--replicas",
    type=click.IntRange(0, 100),
    metavar="COUNT",
    help="Number of pods, of which one leads.  [default: 2; 1 for shadow]",
)
@click.option(
    "--ocm-namespace",
    type=_namespace,
    default="open-cluster-management-hub",
    show_default=True,
    metavar="NAME",
    help="Namespace of OCM's controllers.",
)
@click.option("--crds/--no-crds", default=True, show_default=True, help="Include the CRDs.")
@click.option(
    "--monitoring", is_flag=True, help="Include a ServiceMonitor and alerts, for the Prometheus operator."
)
@click.option(
    "--diff", is_flag=True, help="Compare with the hub instead, by dry runs; nothing is written. See -o."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(("yaml", "json", "table")),
    help="Output format.  [default: yaml; table with --diff]",
)
@hub_options
@runs("fairway.cli.install.process:install")
def install() -> None:
    """Print the objects that run Fairway on a hub, ready for kubectl apply."""
