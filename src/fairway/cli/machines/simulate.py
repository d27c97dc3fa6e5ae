"""`fairway simulate machines`: compare policies of migration on a trace of growth."""

from typing import Any, Final

from fairway.cli.errors import EXIT_OK
from fairway.cli.options.chart import Draw
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.progress import progress
from fairway.workloads.machines.simulation import POLICIES, Figures, Trace
from fairway.workloads.machines.simulation import simulate as play

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


def simulate(
    nodes: int, count: int, minutes: int, seed: int, chart: Draw | None, output: OutputFormat
) -> int:
    trace = Trace(nodes=nodes, machines=count, minutes=minutes, seed=seed)
    by_policy: dict[str, Figures] = {}
    with progress(PLAYING, total=len(POLICIES) * minutes * 60) as advance:
        for name, policy in POLICIES.items():
            by_policy[name] = play(trace, policy, advance=advance)
    rows: list[dict[str, Any]] = []
    documents: list[dict[str, Any]] = []
    for name, figures in by_policy.items():
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
    if chart is not None:
        histories = {name: figures.history for name, figures in by_policy.items()}
        chart(histories, seconds=minutes * 60)
    emit(rows, columns=COLUMNS, output=output, document=None if output == "table" else documents)
    return EXIT_OK
