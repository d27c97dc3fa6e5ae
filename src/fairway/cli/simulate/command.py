"""`fairway simulate`: replay a trace of arrivals under several policies, and compare them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.whatif.hosting import Arrival, Result

UNKNOWN_POLICY: Final = "there is no policy {name!r}; write one of {known}"
UNREADABLE: Final = "{file}: {reason}"
UNWRITABLE: Final = "cannot write {file}: {reason}"
CONTRADICTION: Final = "--trace has its own arrivals: leave out --requests, --seconds, --mix and --lifetime"
WROTE: Final = "wrote {file}"
TITLE: Final = "Utilization of hosting clusters after {count} requests"
_DEFAULTS: Final = {"requests": 500, "seconds": 1.0}


@click.group(
    short_help="Compare policies on a trace, without a hub.",
    epilog="""\b
Examples:
  fairway simulate hosting
  fairway simulate hosting --hosts 50 --slots 20 --requests 800 --mix --svg load.svg
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
  fairway simulate hosting --svg load.svg

\b
Policies: spread and pack are the strategies of a HostingPolicy, with reservations; placement is a plain Placement by
hosted-clusters-score/hostedClustersCount at weight -1. Hosts publish their load every --interval seconds only.
IMBALANCE is how much the fullest host exceeds the average, HERD the largest share of the requests between two
publications that one host got, MOVES how many hosted clusters would have to move so that no host is overcommitted.
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
@click.option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a chart of the load of all hosts to this SVG file.",
)
@output_option
def hosting(
    hosts: int,
    slots: int,
    vary: float,
    requests: int | None,
    seconds: float | None,
    mix: bool,
    lifetime: float | None,
    trace: Path | None,
    interval: float,
    policies: tuple[str, ...],
    seed: int,
    svg: Path | None,
    output: OutputFormat,
) -> int:
    """Replay arrivals of hosted clusters on synthetic hosting clusters, under several policies."""
    from fairway.cli.progress import progress
    from fairway.whatif.hosting import POLICIES, synthetic, synthetic_hosts
    from fairway.whatif.hosting import simulate as replay

    for name in policies:
        if name not in POLICIES:
            raise BadInputError(UNKNOWN_POLICY.format(name=name, known=", ".join(POLICIES)))
    if trace is not None:
        if requests is not None or seconds is not None or mix or lifetime is not None:
            raise BadInputError(CONTRADICTION)
        arrivals = _read(trace)
    else:
        arrivals = synthetic(
            count=requests or int(_DEFAULTS["requests"]),
            seconds=seconds or _DEFAULTS["seconds"],
            seed=seed,
            mix=mix,
            lifetime=lifetime,
        )
    chosen = list(dict.fromkeys(policies)) or list(POLICIES)
    results: list[Result] = []
    with progress("simulating", total=len(arrivals) * len(chosen)) as advance:
        for name in chosen:
            fleet = synthetic_hosts(count=hosts, slots=slots, seed=seed, spread=vary)
            results.append(
                replay(
                    name,
                    POLICIES[name](),
                    hosts=fleet,
                    arrivals=arrivals,
                    interval=int(interval * 1_000_000),
                    advance=advance,
                )
            )
    _print(results, output)
    if svg is not None:
        _draw(results, svg, count=len(arrivals))
        say(WROTE.format(file=svg), stream=sys.stderr)
    return EXIT_OK


def _read(trace: Path) -> "list[Arrival]":
    from fairway.whatif.hosting import TraceError, read_trace

    try:
        with trace.open(encoding="utf-8", newline="") as lines:
            return read_trace(lines)
    except TraceError as error:
        raise BadInputError(UNREADABLE.format(file=trace, reason=error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise BadInputError(UNREADABLE.format(file=trace, reason=reason)) from None


def _print(results: "list[Result]", output: OutputFormat) -> None:
    columns = {
        "policy": "Policy",
        "placed": "Placed",
        "refused": "Refused",
        "overcommitted": "Overcommitted",
        "peak": "Peak",
        "imbalance": "Imbalance",
        "herd": "Herd",
        "moves": "Moves",
    }
    rows = [
        {
            **{key: getattr(each, key) for key in ("policy", "placed", "refused", "overcommitted", "moves")},
            **{key: f"{getattr(each, key):.0%}" for key in ("peak", "imbalance", "herd")},
        }
        for each in results
    ]
    document = [{key: getattr(each, key) for key in (*columns, "utilization")} for each in results]
    emit(rows, columns=columns, output=output, document=None if output == "table" else document)


def _draw(results: "list[Result]", svg: Path, *, count: int) -> None:
    from fairway.whatif.picture import bar_panels

    panels = {each.policy: each.utilization for each in results}
    try:
        svg.write_text(bar_panels(TITLE.format(count=count), panels), encoding="utf-8")
    except OSError as error:
        raise BadInputError(UNWRITABLE.format(file=svg, reason=error.strerror)) from None
