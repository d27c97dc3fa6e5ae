"""Where the programs of Kubernetes lie that tests and benchmarks start.

`KUBEBUILDER_ASSETS` is asked first, as every Kubernetes project does. Without it they are where `make kube-tools` puts
what it builds: one folder per recipe, and the link `latest` to what was built last.
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
    """Names every program that is not there, and the remedy."""


@dataclass(frozen=True, slots=True)
class Tools:
    folder: Path
    remedy: str = CACHE_REMEDY

    @classmethod
    def find(cls, *needed: str, environ: Mapping[str, str] = os.environ) -> "Tools":
        """The tools at hand; `ToolsMissing` unless all that are needed are there."""
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
    """Outside every checkout, for building takes minutes and the programs are large."""
    if chosen := environ.get("FAIRWAY_KUBE_CACHE"):
        return Path(chosen).expanduser()
    home = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "fairway" / "kube"
