"""Charts of `fairway simulate`, drawn by matplotlib, which is the extra ``charts``.

Policies differ by factors of a hundred and more. So an axis is linear as far as it matters, and logarithmic beyond:
neither a small nor a large value hides the others.
"""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairway.api.amount_display import display_share
from fairway.cli.errors import BadInputError
from fairway.cli.text import say

WROTE: Final = "wrote {file}"
NOT_WRITTEN: Final = "cannot write {file}: {reason}; choose another file for --chart"

WIDTH: Final = 9.0
PANEL: Final = 2.2
"""Inches."""
BLUE, RED, GRAY = "#2f6fb2", "#c2503f", "#6e7781"
MAX_LINEAR: Final = 3.0
"""An axis stays linear while its largest value is at most this many times the one that must be readable."""
LOW: Final = 0.25
"""Load below which the axis ends at the fullest host: up to 100 %, the bars would be lines."""


# Without a home, matplotlib warns that it keeps its list of fonts in a temporary folder.
logging.getLogger("matplotlib").setLevel(logging.ERROR)


def draw_load(file: Path, utilization: Mapping[str, Mapping[str, float]], *, title: str) -> None:
    """Draw the utilization of all hosts under each policy, the fullest host first."""
    highest = max((value for hosts in utilization.values() for value in hosts.values()), default=0.0)
    axis = max(highest, 1.0 if highest > LOW else 0.01)
    figure, panels = _panels(len(utilization), title=title, label="hosts, the fullest first")
    for panel, (policy, hosts) in zip(panels, utilization.items(), strict=True):
        ranked = sorted(hosts.values(), reverse=True)
        over = sum(value > 1 for value in ranked)
        panel.stairs(ranked, fill=True, color=BLUE)
        panel.stairs(ranked[:over], range(over + 1), fill=True, color=RED)
        panel.axhline(1, color=GRAY, linestyle="--", linewidth=1)
        fullest = max(hosts, key=lambda host: hosts[host])
        _describe(
            panel,
            f"{policy}: {over} of {len(hosts)} hosts above 100 %, the fullest {fullest} with "
            f"{display_share(hosts[fullest])}",
        )
        _scale(panel, highest=axis, linear=1.0, grain=0.01, unit=display_share)
    _save(figure, file)


def draw_denied(file: Path, histories: Mapping[str, Sequence[tuple[float, int]]], *, seconds: float) -> None:
    """Draw the compute units that machines asked for and did not get, over time, under each policy."""
    peaks = {policy: max((units for _, units in points), default=0) for policy, points in histories.items()}
    figure, panels = _panels(
        len(histories), title="Denied growth over time, in compute units", label="minutes"
    )
    for panel, (policy, points) in zip(panels, histories.items(), strict=True):
        minutes = [0.0, *(moment / 60 for moment, _ in points), seconds / 60]
        panel.stairs([0, *(units for _, units in points)], minutes, fill=True, color=BLUE)
        _describe(panel, f"{policy}: at most {peaks[policy]:,} units denied at a time")
        _scale(
            panel,
            highest=max(peaks.values()),
            linear=max(10, min(peaks.values()) // 2 * 2),
            grain=1,
            unit="{:,.0f}".format,
        )
    _save(figure, file)


def _panels(count: int, *, title: str, label: str) -> tuple[Figure, list[Axes]]:
    """Return panels below each other that share their axes, so that they can be compared."""
    figure = Figure(figsize=(WIDTH, PANEL * count + 0.6), layout="constrained")
    figure.suptitle(title, parse_math=False)
    panels = list(figure.subplots(count, sharex=True, sharey=True, squeeze=False)[:, 0])
    panels[-1].set_xlabel(label)
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for panel in panels:
        panel.margins(x=0)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _describe(panel: Axes, text: str) -> None:
    panel.set_title(text, loc="left", fontsize=10, parse_math=False)


def _scale(panel: Axes, *, highest: float, linear: float, grain: float, unit: Callable[[float], str]) -> None:
    """Show values up to ``linear`` on a linear scale, and larger ones on a logarithmic one.

    Labels are multiples of ``grain``, the smallest difference that ``unit`` shows: otherwise some would be equal.
    """
    top = highest * 1.2 or grain
    if highest > linear * MAX_LINEAR:
        ticks, step = [0, linear / 2, linear], 10 if highest >= linear * 10 else 2
        while ticks[-1] * step <= highest:
            ticks.append(ticks[-1] * step)
        panel.set_yscale("symlog", linthresh=linear)
        panel.set_yticks(ticks)
        panel.set_yticks((), minor=True)
    else:
        panel.set_yticks([tick * grain for tick in MaxNLocator(5, integer=True).tick_values(0, top / grain)])
    # After the scale, which sets a formatter of its own.
    panel.yaxis.set_major_formatter(lambda value, _: unit(value))
    panel.set_ylim(0, top)


def _save(figure: Figure, file: Path) -> None:
    try:
        # Text stays text, and the same figures give the same bytes.
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "fairway"}):
            figure.savefig(file, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise BadInputError(NOT_WRITTEN.format(file=file, reason=error.strerror)) from None
    say(WROTE.format(file=file), stream=sys.stderr)
