"""Print what Fairway and its packages need at run time, for `make lock`: neighbours of one checkout have no release."""

import tomllib
from pathlib import Path

if __name__ == "__main__":
    for path in (Path("pyproject.toml"), *sorted(Path("packages").glob("*/pyproject.toml"))):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        hooks = document["tool"]["hatch"].get("metadata", {}).get("hooks", {})
        project = document["project"]
        lists = (
            project.get("dependencies", ()),
            project.get("optional-dependencies", {}).get("client", ()),
            hooks.get("custom", {}).get("dependencies", ()),
        )
        for requirements in lists:
            print(*requirements, sep="\n")
