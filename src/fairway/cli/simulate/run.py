"""`fairway simulate`: replay a trace of arrivals under several policies, and compare them."""

from pathlib import Path
from typing import Final

from fairway.api.amount_display import display_share
from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.options.chart import Draw
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.progress import progress
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

UNKNOWN_POLICY: Final = "there is no policy {name!r}; write one of {known}"
UNREADABLE: Final = "{file}: {reason}"
CONTRADICTION: Final = "--trace has its own arrivals: leave out --requests, --seconds, --mix and --lifetime"
TITLE: Final = "Utilization of hosting clusters after {count} requests"
SPREAD: Final = ("median", "lowest")
"""What the table says of the hosts beside the fullest one, at the end; the other formats have all hosts."""
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
    chart: Draw | None,
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
    if chart is not None:
        load = {result.policy: result.utilization for result in results}
        chart(load, title=TITLE.format(count=len(arrivals)))
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
        "median": "Median",
        "lowest": "Lowest",
        "imbalance": "Imbalance",
        "herd": "Herd",
        "moves": "Moves",
    }
    rows = []
    for result in results:
        load = sorted(result.utilization.values())
        shares = {
            "peak": result.peak,
            "median": load[len(load) // 2],
            "lowest": load[0],
            "imbalance": result.imbalance,
            "herd": result.herd,
        }
        counts = {
            key: getattr(result, key) for key in ("policy", "placed", "refused", "overcommitted", "moves")
        }
        rows.append(
            counts | {key: None if share is None else display_share(share) for key, share in shares.items()}
        )
    keys = (*(key for key in columns if key not in SPREAD), "utilization")
    document = [{key: getattr(result, key) for key in keys} for result in results]
    emit(
        rows,
        columns=columns,
        output=output,
        document=None if output == "table" else document,
        less=SPREAD,
    )
