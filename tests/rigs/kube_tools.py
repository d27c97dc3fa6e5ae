"""Find the Kubernetes programs that tests and benchmarks start.

They are in `KUBEBUILDER_ASSETS`, as in other Kubernetes projects, or where `make kube-tools` builds them: one folder
per recipe, and the link `latest` to the last build.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ASSETS = "KUBEBUILDER_ASSETS"
LATEST = "latest"
PROGRAM_MISSING = "{names} not found in {folder}; {remedy}"
ASSETS_REMEDY = f"the folder is what {ASSETS} says: unset it, and `make kube-tools` builds them"
CACHE_REMEDY = f"`make kube-tools` builds them, which needs Go; or set {ASSETS}"


class ToolsMissing(Exception):
    """Names the missing programs and the remedy."""


@dataclass(frozen=True, slots=True)
class Tools:
    folder: Path
    remedy: str = CACHE_REMEDY

    @classmethod
    def find(cls, *needed: str, environ: Mapping[str, str] = os.environ) -> "Tools":
        """Return the tools; raises `ToolsMissing` if a needed one is missing."""
        if assets := environ.get(ASSETS):
            tools = cls(Path(assets).expanduser(), ASSETS_REMEDY)
        else:
            tools = cls(cache(environ) / LATEST / "bin")
        return tools.require(*needed)

    def require(self, *needed: str) -> "Tools":
        if missing := [name for name in needed if not (self.folder / name).exists()]:
            names = ", ".join(missing)
            raise ToolsMissing(PROGRAM_MISSING.format(names=names, folder=self.folder, remedy=self.remedy))
        return self

    def path(self, name: str) -> Path:
        return self.require(name).folder / name


def cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Outside the checkout, because a build takes minutes and the programs are large."""
    if chosen := environ.get("FAIRWAY_KUBE_CACHE"):
        return Path(chosen).expanduser()
    home = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "fairway" / "kube"
