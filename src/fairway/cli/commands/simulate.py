"""Declaration of `fairway simulate`: its options and its help."""

from pathlib import Path

import click

from fairway.cli.lazy import runs
from fairway.cli.options.chart import chart_option
from fairway.cli.options.output import output_option


@click.group(
    short_help="Compare policies on a trace, without a hub.",
    epilog="""\b
Examples:
  fairway simulate hosting
  fairway simulate hosting --hosts 50 --slots 20 --requests 800 --mix --chart load.svg
  fairway simulate machines --nodes 50 --minutes 60
""",
)
def simulate() -> None:
    """Replay a trace under several policies and compare them, without a hub."""


@simulate.command(
    short_help="Place a burst of hosted clusters under several policies.",
    epilog="""\b
Examples:
  fairway simulate hosting                                      500 requests in a second over 20 hosts
  fairway simulate hosting --requests 2000 --seconds 3600 --lifetime 1800
  fairway simulate hosting --trace arrivals.csv --policy spread --policy placement -o json
  fairway simulate hosting --chart load.svg

\b
Policies: spread and pack are the strategies of a HostingPolicy, with reservations; placement is a plain Placement by
hosted-clusters-score/hostedClustersCount at weight -1. Hosts publish their load every --interval seconds only.
PEAK is the highest load that a host ever had, MEDIAN and LOWEST are loads at the end. IMBALANCE is how much the
fullest host exceeds the average. HERD is how one-sided the requests between two publications were: 0 % if they were
as even as possible, 100 % if one host got all. MOVES is how many hosted clusters would have to move so that no host is
overcommitted.
A trace is CSV with the columns seconds,name,size,tenant,lifetime, of which only seconds is required.
""",
)
@click.option(
    "--hosts",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Number of hosting clusters.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, 10_000),
    default=40,
    show_default=True,
    help="Room of each for small hosted clusters.",
)
@click.option(
    "--vary",
    type=click.FloatRange(0, 0.9),
    default=0.0,
    show_default=True,
    help="Share by which the room varies.",
)
@click.option("--requests", type=click.IntRange(1, 1_000_000), help="Number of requests.  [default: 500]")
@click.option(
    "--seconds", type=click.FloatRange(0, 1e8, min_open=True), help="Time in which they arrive.  [default: 1]"
)
@click.option("--mix", is_flag=True, help="Mix sizes: seven of ten small, two medium, one large.")
@click.option(
    "--lifetime",
    type=click.FloatRange(0, 1e8, min_open=True),
    help="Mean lifetime in seconds.  [default: unlimited]",
)
@click.option(
    "--trace", type=click.Path(path_type=Path, dir_okay=False), help="Replay this CSV file instead."
)
@click.option(
    "--interval",
    type=click.FloatRange(0.001, 1e6),
    default=60.0,
    show_default=True,
    help="Seconds between two publications of the load.",
)
@click.option(
    "--policy", "policies", multiple=True, help="Policy to compare. Can be repeated.  [default: all]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers.")
@chart_option("the load of all hosts", "draw_load")
@output_option
@runs("fairway.cli.simulate.run:hosting")
def hosting() -> None:
    """Replay arrivals of hosted clusters on synthetic hosting clusters, under several policies."""


@simulate.command(
    short_help="Compare policies of migration on a trace of growth.",
    epilog="""\b
Examples:
  fairway simulate machines
  fairway simulate machines --nodes 50 --minutes 60 --seed 7
  fairway simulate machines --chart growth.svg -o json

\b
DENIED counts requests that were not granted at once; MEDIAN TO GRANT and 99 % are how long they waited. UNIT-HOURS
DENIED is growth that was asked for and not granted, over time. PER UNIT is the number of moves for each compute unit
that a machine grew into room that another left for it. WASTED moves made room that no machine used; CANCELLED ones
became unnecessary before their cutover.
""",
)
@click.option("--nodes", type=click.IntRange(2, 2000), default=20, show_default=True, help="Number of nodes.")
@click.option(
    "--machines",
    "count",
    type=click.IntRange(1, 60),
    default=12,
    show_default=True,
    help="Number of machines on each node.",
)
@click.option(
    "--minutes", type=click.IntRange(1, 1440), default=30, show_default=True, help="Simulated minutes."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the trace.")
@chart_option("denied growth over time", "draw_denied")
@output_option
@runs("fairway.cli.machines.simulate:simulate")
def machines() -> None:
    """Replay the same growth of virtual machines under several policies, on a virtual clock.

    The same options always give the same answer.
    """
