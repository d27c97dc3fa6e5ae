"""Declaration of `fairway explain`: its options and its help."""

from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.input import input_options, moment
from fairway.cli.options.names import complete
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option

REQUESTS: Final = ("hostedclusterrequest", "hostedclusterrequests")


@click.command(
    short_help="Explain why clusters were selected or not, and what would change it.",
    epilog="""\b
Examples:
  fairway explain -f examples/fleet placement ns1/most-free-cpu
  fairway explain -f examples/fleet placement ns1/most-free-cpu --cluster gpu-iad
  fairway explain -f fleet.json placement apps/web --cluster c17 -o json | jq .cluster.counterfactual.edits
  fairway explain placement ns1/most-free-cpu --watch
  fairway explain placement/most-free-cpu -n ns1
  fairway explain -f changed-placement.yaml --hub placement ns1/most-free-cpu
  fairway explain hostedclusterrequest default/shop

\b
Without -f, the command reads the hub; with -f and --hub, the hub as it would be with the files applied. Nothing is
written. --watch explains again whenever the answer changes. The answer is that of fairway place: other placements keep
their recorded decisions; those without one that precede this one, by namespace and name, are decided first. --alone
leaves them undecided. A HostedClusterRequest is explained as by fairway hosting explain: with options of the hub, -n
and -o only.

\b
A placement that is not satisfied, or not as the hub has it, may wait. Where the controllers run on this machine as the
same user, its state in the queue is shown: why it waits, since when, how often it was tried, and what would wake it
(--all shows it for every placement). In a cluster, run the command in the controllers' pod.

\b
What would make a cluster win is the smallest change: the fewest edits; among equals, the least invasive (tolerate,
name a set or set another field, maxSkew, label, taint, join a set, bind a set, claim, score, amount, more clusters);
among those, the smallest change of numbers. It is verified: with the edits the cluster is selected; without any one of
them, or with one point, cluster or step of an amount less, it is not. The edits are those that plugins propose; notes
name the plugins that propose none. The decisions of other placements are kept; if one of them would change for the same
cluster, Balance may differ.

\b
-o json and -o yaml have these fields:
  placement, wanted (null: all), clusters, satisfied, reason, message, leftAlone,
  advice[]      kind, message, remedy
  recorded      names of the clusters in the hub's decisions (null: not decided, or no hub)
  recordedScores  points by cluster, where the hub's decisions have them, and recordedAt, their time
  queue         state, since, added, attempts, trigger, reasons[], wakes[], nextTry, leading (null: no hub, --watch,
                or the controllers do not run on this machine as this user)
  chosen[]      cluster, rank, total, contributions[]: plugin, score, weight, points, known, note
  passedOver[]  as chosen, and reason
  rejected[]    plugin, reason, count, clusters[]
  cluster       name, selected, rejectedBy, reason, rank, total, contributions[], checks[]: plugin, passed,
                reason; comparison: with, gap, contributions[]; counterfactual: state (Selected, Found,
                Blocked, NotFound), edits[]: kind, description and its own fields; alternatives[][],
                displaced[], obstacle, tried[], notes[], runs, margin: points, runnerUp
""",
)
@click.argument(
    "kind",
    shell_complete=lambda _context, _parameter, typed: [
        word for word in ("placement", REQUESTS[0]) if word.startswith(typed)
    ],
    metavar="placement|hostedclusterrequest",
)
@click.argument("name", metavar="NS/NAME", required=False, shell_complete=complete("placements"))
@click.option(
    "-n",
    "--namespace",
    "where",
    metavar="NAME",
    shell_complete=complete("namespaces"),
    help="Namespace of the placement, if NAME does not include it.",
)
@click.option(
    "--cluster",
    metavar="NAME",
    shell_complete=complete("clusters"),
    help="Explain this cluster first, and what would make it win.",
)
@click.option("--now", type=moment, metavar="TIME", help="Explain the decision at this time.  [default: now]")
@click.option("--alone", is_flag=True, help="Do not decide earlier placements first.")
@click.option("--all", "everything", is_flag=True, help="Show all clusters.")
@click.option("-w", "--watch", is_flag=True, help="Explain again whenever the answer changes.")
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.explain.run:explain")
def explain() -> None:
    """Explain why a placement selects these clusters, and why not the others."""
