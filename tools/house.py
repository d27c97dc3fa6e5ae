"""Draw docs/house.svg, the packages and which of them import which, from the import graph.

Rows follow from the imports: a package stands above everything that it imports. Below its name are its folders and what
it imports, except what its other imports imply. ``make reference`` runs this; a test compares picture and code.
"""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import grimp

ROOT: Final = Path(__file__).parent.parent
PICTURE: Final = ROOT / "docs" / "house.svg"
LIBRARIES: Final = ("kubewire", "kubecel", "kubehub")
ROOMS: Final = ("controllers", "workloads", "hosts")
"""Packages whose folders are shown, too."""
WIDTH: Final = 860
GAP: Final = 10
LINE: Final = 16
LETTER: Final = 6.2
"""Width of an average letter of the small text."""

STYLE: Final = """
  text { font: 12px system-ui, sans-serif; fill: #59636e; text-anchor: middle }
  .name { font-size: 14px; font-weight: 600; fill: #1f2328 }
  rect { fill: #f6f8fa; stroke: #818b98; rx: 6px }
  .library rect { fill: #ddf4ff; stroke: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .name { fill: #f0f6fc }
    rect { fill: #151b23; stroke: #656c76 } .library rect { fill: #0c2d4a; stroke: #4493f8 }
  }
"""

Imports = Mapping[str, frozenset[str]]


def read_imports() -> tuple[Imports, Mapping[str, tuple[str, ...]]]:
    """Return what each package imports, and the folders of those that show them."""
    graph = grimp.build_graph("fairway", *LIBRARIES, cache_dir=None, exclude_type_checking_imports=True)
    packages = {name: set[str]() for name in LIBRARIES}
    rooms = {name: set[str]() for name in ROOMS}
    for module in sorted(graph.modules):
        package, parts = _package_of(module), module.split(".")
        if not package:
            continue
        targets = {_package_of(imported) for imported in graph.find_modules_directly_imported_by(module)}
        packages.setdefault(package, set()).update(targets - {package, ""})
        if package in rooms and len(parts) > 2 and graph.find_children(".".join(parts[:3])):
            rooms[package].add(parts[2])
    imports = {package: frozenset(targets) for package, targets in packages.items()}
    return imports, {package: tuple(sorted(folders)) for package, folders in rooms.items()}


def _package_of(module: str) -> str:
    first, _, rest = module.partition(".")
    if first != "fairway":
        return first
    return rest.partition(".")[0].replace("__main__", "")


def rows_of(imports: Imports) -> list[list[str]]:
    """Return the packages by row, from the top. Raises RecursionError if packages import each other."""
    levels: dict[str, int] = {}

    def level(package: str) -> int:
        if package not in levels:
            levels[package] = max((level(target) + 1 for target in imports[package]), default=0)
        return levels[package]

    rows: list[list[str]] = [[] for _ in range(max(map(level, imports)) + 1)]
    for package in sorted(imports):
        rows[-1 - levels[package]].append(package)
    return rows


def direct_imports(imports: Imports) -> Mapping[str, tuple[str, ...]]:
    """Return the imports of each package that no chain of its other imports implies."""
    reached: dict[str, frozenset[str]] = {}

    def reach(package: str) -> frozenset[str]:
        if package not in reached:
            reached[package] = imports[package].union(*map(reach, imports[package]))
        return reached[package]

    return {
        package: tuple(
            target
            for target in sorted(targets)
            if not any(target in reach(other) for other in targets - {target})
        )
        for package, targets in imports.items()
    }


def draw(imports: Imports, rooms: Mapping[str, tuple[str, ...]]) -> str:
    direct = direct_imports(imports)
    boxes: list[str] = []
    top = GAP
    for row in rows_of(imports):
        width = (WIDTH - GAP * (len(row) + 1)) / len(row)
        letters = int((width - 2 * GAP) / LETTER)
        texts = {
            package: [
                *textwrap.wrap(" · ".join(rooms.get(package, ())), letters),
                *textwrap.wrap("→ " + ", ".join(direct[package]) if direct[package] else "", letters),
            ]
            for package in row
        }
        height = LINE * (1 + max(map(len, texts.values()))) + 16
        for number, package in enumerate(row):
            left = GAP + number * (width + GAP)
            boxes.append(_box(package, texts[package], left=left, top=top, width=width, height=height))
        top += height + GAP
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">',
            "<title>The packages of Fairway, each above those that it imports</title>",
            f"<style>{STYLE}</style>",
            *boxes,
            "</svg>\n",
        )
    )


def _box(package: str, lines: list[str], *, left: float, top: int, width: float, height: int) -> str:
    kind, middle = "library" if package in LIBRARIES else "package", left + width / 2
    first = top + (height - LINE * len(lines)) / 2 + 5
    texts = [f'<text class="name" x="{middle:.0f}" y="{first:.0f}">{package}</text>']
    for number, line in enumerate(lines, start=1):
        texts.append(f'<text x="{middle:.0f}" y="{first + LINE * number:.0f}">{escape(line)}</text>')
    box = f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{height}"/>'
    return f'<g class="{kind}">{box}{"".join(texts)}</g>'


if __name__ == "__main__":
    PICTURE.write_text(draw(*read_imports()), encoding="utf-8")
