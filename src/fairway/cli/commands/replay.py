"""Declaration of `fairway replay`: its options and its help."""

from pathlib import Path

import click

from fairway.cli.lazy import parsed_by, runs
from fairway.cli.options.history import archive_option
from fairway.cli.options.output import output_option


@click.command(
    short_help="Decide recorded decisions again: as they were, or under another policy.",
    epilog="""\b
Examples:
  fairway replay 1v2q8h3k5mzr04xd --history ./hub
  fairway replay --all --history ./hub
  fairway replay --all --name ns1/web --placement new-web.yaml
  fairway replay --all --since 2d --scheduler-config new-profile.yaml

\b
Without a policy, the decision must be exactly the recorded one: the same pages, clusters, scores, reasons and status.
With --placement or --scheduler-config, each decision is compared with what the policy would have selected at that time
from the same inputs. A score that the policy reads and the recorded decision did not read may be outdated or missing in
the history: a warning names it.

\b
Exit status: 0 all are the same, 1 some differ or cannot be decided, 2 bad input.
""",
)
@click.argument("record", metavar="[ID]", required=False)
@click.option("--all", "everything", is_flag=True, help="Replay all recorded placement decisions.")
@click.option("--name", metavar="NS/NAME", help="With --all, only decisions of this placement.")
@click.option(
    "--since",
    type=parsed_by("fairway.cli.history.times:since"),
    metavar="TIME|DURATION",
    help="With --all, only decisions since a time, or in the last 30m, 3h or 2d.",
)
@click.option(
    "--placement",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Decide with the spec and annotations of this Placement.",
)
@click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Decide with this profile.  [default: the recorded one]",
)
@archive_option
@output_option
@runs("fairway.cli.history.replay:replay")
def replay() -> None:
    """Decide recorded decisions again, from what they read."""
