"""Writes what in this folder follows from the code: the definitions in ``crds/``.

python deploy/generate.py            # writes them; a test fails when they are not what this would write
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fairway.api import crds
from fairway.cli.dumper import dump_yaml

HERE: Final = Path(__file__).parent
OURS: Final = frozenset({"ManagedClusterScore"})
"""Kinds that OCM does not have; all others it brings itself."""
HEADER: Final = "# Written by deploy/generate.py from the types in src/fairway/api.\n"


def definitions() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for definition in crds():
        names = definition["spec"]["names"]
        folder = "fairway" if names["kind"] in OURS else "ocm"
        yield f"crds/{folder}/{names['plural']}.yaml", definition


def files() -> dict[str, str]:
    """Contents by path."""
    return {path: HEADER + dump_yaml(definition, sort_keys=False) for path, definition in definitions()}


def main() -> int:
    for path, content in files().items():
        file = HERE / path
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
            print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
