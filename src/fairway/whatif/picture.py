"""Charts as SVG files, without a plotting library: a few bars and lines need no more than text."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 900
PANEL: Final = 220
LEFT: Final = 60
TOP: Final = 40
BOTTOM: Final = 46
COLOURS: Final = ("#2f6fb2", "#3a9a5b", "#c2503f", "#8a63b5", "#b8862b", "#4a9aa5")
MOST_LABELS: Final = 30


def bar_panels(title: str, panels: Mapping[str, Mapping[str, float]], *, limit: float = 1.0) -> str:
    """Draw one panel of bars for each series, all to the same scale, with a line at ``limit``."""
    highest = max([limit * 1.1, *(value for bars in panels.values() for value in bars.values())])
    height = TOP + PANEL * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>',
    ]
    for number, (name, bars) in enumerate(panels.items()):
        colour = COLOURS[number % len(COLOURS)]
        top = TOP + number * PANEL
        parts += _panel(name, bars, top=top, highest=highest, limit=limit, colour=colour)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    name: str, bars: Mapping[str, float], *, top: int, highest: float, limit: float, colour: str
) -> Sequence[str]:
    base, room = top + PANEL - BOTTOM, PANEL - BOTTOM - 24
    step = (WIDTH - LEFT - 20) / max(1, len(bars))
    every = -(-len(bars) // MOST_LABELS) or 1

    def y(value: float) -> float:
        return base - room * value / highest

    parts = [f'<text x="{LEFT}" y="{top + 16}" font-weight="bold">{escape(name)}</text>']
    for at, (label, value) in enumerate(bars.items()):
        x = LEFT + at * step
        tip = escape(f"{label}: {value:.0%}")
        parts.append(
            f'<rect x="{x + step * 0.1:.1f}" y="{y(value):.1f}" width="{step * 0.8:.1f}" '
            f'height="{base - y(value):.1f}" fill="{colour}"><title>{tip}</title></rect>'
        )
        if at % every == 0:
            middle = x + step / 2
            parts.append(
                f'<text x="{middle:.1f}" y="{base + 12}" text-anchor="end" font-size="9" '
                f'transform="rotate(-35 {middle:.1f} {base + 12})">{escape(label)}</text>'
            )
    for value, text in ((0.0, "0"), (limit, f"{limit:.0%}"), (highest, f"{highest:.0%}")):
        dash = ' stroke-dasharray="4 3"' if value == limit else ""
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#888"{dash}/>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{text}</text>')
    return parts
