"""Draw denied growth over time as an SVG: one line for each policy."""

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 880
HEIGHT: Final = 360
LEFT, RIGHT, TOP, BOTTOM = 60, 170, 30, 45
COLOURS: Final = ("#1f6feb", "#b35900", "#8250df", "#57606a", "#1a7f37")
TITLE: Final = "Denied growth over time"
TICKS: Final = 5

Series = Sequence[tuple[float, int]]
"""Times in seconds, and the value from then on."""


def draw(series: Mapping[str, Series], *, seconds: float) -> str:
    """Return an SVG with the steps of each series."""
    most = max((value for points in series.values() for _, value in points), default=0) or 1
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(moment: float) -> str:
        return f"{LEFT + width * moment / seconds:.1f}"

    def y(value: float) -> str:
        return f"{TOP + height * (1 - value / most):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f"<title>{TITLE}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-weight="bold">{TITLE} (compute units)</text>',
    ]
    for tick in range(TICKS + 1):
        value, moment = most * tick / TICKS, seconds * tick / TICKS
        parts += [
            f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y(value)}" y2="{y(value)}" stroke="#d0d7de"/>',
            f'<text x="{LEFT - 6}" y="{y(value)}" dy="4" text-anchor="end">{value:.0f}</text>',
            f'<text x="{x(moment)}" y="{HEIGHT - 22}" text-anchor="middle">{moment / 60:.0f} min</text>',
        ]
    for at, (name, points) in enumerate(series.items()):
        colour = COLOURS[at % len(COLOURS)]
        path = [f"M{x(0)},{y(0)}"]
        for moment, after in points:
            path += [f"H{x(moment)}", f"V{y(after)}"]
        path.append(f"H{x(seconds)}")
        label = TOP + 14 + 18 * at
        parts += [
            f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            f'<line x1="{WIDTH - RIGHT + 14}" x2="{WIDTH - RIGHT + 34}" y1="{label - 4}" y2="{label - 4}" '
            f'stroke="{colour}" stroke-width="3"/>',
            f'<text x="{WIDTH - RIGHT + 40}" y="{label}">{escape(name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
