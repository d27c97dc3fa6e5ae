"""`fairway machines simulate`: compare policies of migration on a trace of growth."""

from pathlib import Path
from typing import Any, Final

import click

from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.output import OutputFormat, emit, output_option
from fairway.cli.progress import progress

COLUMNS: Final = {
    "policy": "Policy",
    "denied": "Denied",
    "wait": "Median to grant",
    "longWait": "99 %",
    "unitHours": "Unit-hours denied",
    "moves": "Moves",
    "perUnit": "Per unit",
    "wasted": "Wasted",
    "cancelled": "Cancelled",
}
PLAYING: Final = "playing"
NOT_WRITTEN: Final = "cannot write {file}: {reason}; choose another file for --svg"


@click.command(
    short_help="Compare policies of migration on a trace of growth.",
    epilog="""\b
Examples:
  fairway machines simulate
  fairway machines simulate --nodes 50 --minutes 60 --seed 7
  fairway machines simulate --svg growth.svg -o json

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
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also draw denied growth over time as an SVG.",
)
@output_option
def simulate(nodes: int, count: int, minutes: int, seed: int, svg: Path | None, output: OutputFormat) -> int:
    """Replay the same growth of virtual machines under several policies, on a virtual clock.

    The same options always give the same answer.
    """
    from fairway.cli.machines.chart import draw
    from fairway.machines.simulation import POLICIES, Figures, Trace
    from fairway.machines.simulation import simulate as play

    trace = Trace(nodes=nodes, machines=count, minutes=minutes, seed=seed)
    found: dict[str, Figures] = {}
    with progress(PLAYING, total=len(POLICIES) * minutes * 60) as advance:
        for name, policy in POLICIES.items():
            found[name] = play(trace, policy, advance=advance)
    rows: list[dict[str, Any]] = []
    documents: list[dict[str, Any]] = []
    for name, figures in found.items():
        ratio = figures.moves_per_relieved_unit()
        rows.append(
            {
                "policy": name,
                "denied": figures.denied,
                "wait": f"{figures.wait(0.5):.1f} s",
                "longWait": f"{figures.wait(0.99):.1f} s",
                "unitHours": f"{figures.denied_unit_seconds / 3600:.2f}",
                "moves": figures.moves,
                "perUnit": None if ratio is None else f"{ratio:.2f}",
                "wasted": figures.wasted,
                "cancelled": figures.cancelled,
            }
        )
        documents.append(
            {
                "policy": name,
                "requests": figures.requests,
                "denied": figures.denied,
                "secondsToGrant": {
                    "median": figures.wait(0.5),
                    "p99": figures.wait(0.99),
                    "longest": figures.wait(1.0),
                },
                "deniedUnitSeconds": round(figures.denied_unit_seconds, 3),
                "moves": figures.moves,
                "movesPerRelievedUnit": None if ratio is None else round(ratio, 4),
                "wasted": figures.wasted,
                "cancelled": figures.cancelled,
                "failed": figures.failed,
            }
        )
    if svg is not None:
        try:
            svg.write_text(
                draw({name: figures.history for name, figures in found.items()}, seconds=minutes * 60),
                encoding="utf-8",
            )
        except OSError as error:
            raise BadInputError(NOT_WRITTEN.format(file=svg, reason=error.strerror)) from None
    emit(rows, columns=COLUMNS, output=output, document=None if output == "table" else documents)
    return EXIT_OK
