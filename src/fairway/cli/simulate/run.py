"""`fairway simulate`: replay a trace of arrivals under several policies, and compare them."""

import sys
from pathlib import Path
from typing import Final

from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.progress import progress
from fairway.cli.text import say
from fairway.whatif.hosting import (
    POLICIES,
    Arrival,
    Result,
    TraceError,
    read_trace,
    synthetic,
    synthetic_hosts,
)
from fairway.whatif.hosting import simulate as replay
from fairway.whatif.picture import bar_panels

UNKNOWN_POLICY: Final = "there is no policy {name!r}; write one of {known}"
UNREADABLE: Final = "{file}: {reason}"
UNWRITABLE: Final = "cannot write {file}: {reason}"
CONTRADICTION: Final = "--trace has its own arrivals: leave out --requests, --seconds, --mix and --lifetime"
WROTE: Final = "wrote {file}"
TITLE: Final = "Utilization of hosting clusters after {count} requests"
_DEFAULTS: Final = {"requests": 500, "seconds": 1.0}


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


def _read(trace: Path) -> list[Arrival]:
    try:
        with trace.open(encoding="utf-8", newline="") as lines:
            return read_trace(lines)
    except TraceError as error:
        raise BadInputError(UNREADABLE.format(file=trace, reason=error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise BadInputError(UNREADABLE.format(file=trace, reason=reason)) from None


def _print(results: list[Result], output: OutputFormat) -> None:
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
            **{
                key: getattr(result, key) for key in ("policy", "placed", "refused", "overcommitted", "moves")
            },
            **{key: f"{getattr(result, key):.0%}" for key in ("peak", "imbalance", "herd")},
        }
        for result in results
    ]
    document = [{key: getattr(result, key) for key in (*columns, "utilization")} for result in results]
    emit(rows, columns=columns, output=output, document=None if output == "table" else document)


def _draw(results: list[Result], svg: Path, *, count: int) -> None:
    panels = {result.policy: result.utilization for result in results}
    try:
        svg.write_text(bar_panels(TITLE.format(count=count), panels), encoding="utf-8")
    except OSError as error:
        raise BadInputError(UNWRITABLE.format(file=svg, reason=error.strerror)) from None
