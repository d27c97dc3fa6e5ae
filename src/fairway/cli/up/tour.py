"""The first commands to try on a hub that `fairway up` started, ready to paste."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

NAME: Final = "default/most-free-cpu"
SCORE: Final = "cpuAvailable"
FILE: Final = Path("examples", "most-free-cpu.yaml")
EXAMPLE: Final = """\
# Select the three clusters with the most free CPU, as published by their agents.
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata:
  name: most-free-cpu
  namespace: default
  annotations:
    fairway.dev/missing-score: exclude # do not select clusters whose score is missing or expired
spec:
  numberOfClusters: 3
  prioritizerPolicy:
    mode: Exact
    configurations:
    - scoreCoordinate:
        type: AddOn
        addOn:
          resourceName: resource-usage-score
          scoreName: cpuAvailable
      weight: 1
"""
"""Content of the file in examples/, which the installed package does not contain."""
REQUEST_NAME: Final = "default/shop"
REQUEST: Final = """\
# A hosted cluster for which Fairway selects the hosting cluster with the most room.
apiVersion: placement.fairway.dev/v1alpha1
kind: HostedClusterRequest
metadata:
  name: shop
  namespace: default
spec:
  hostedCluster:
    spec: {platform: {type: None}}
"""
"""The same for examples/hosted-cluster.yaml."""


def fairway_command(arguments: Sequence[str] = sys.argv) -> str:
    """Return the command that runs this Fairway in a shell in the same folder."""
    program = Path(arguments[0])
    if program.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m fairway"
    installed = shutil.which("fairway")
    if installed is not None and os.path.realpath(installed) == os.path.realpath(program):
        return "fairway"
    try:
        shown = program.absolute().relative_to(Path.cwd())
    except ValueError:
        shown = program.absolute()
    return shlex.quote(str(shown) if os.sep in str(shown) else f".{os.sep}{shown}")


def apply_command(fairway: str) -> str:
    """Apply the file if it exists, so that users can read it."""
    if FILE.is_file() and FILE.read_text(encoding="utf-8") == EXAMPLE:
        return f"{fairway} apply -f {FILE.as_posix()}"
    return f"{fairway} up --example | {fairway} apply -f -"


def steps(fairway: str) -> tuple[str, str, str]:
    """List the fleet, apply the example, explain its decision."""
    return (f"{fairway} get clusters", apply_command(fairway), f"{fairway} explain placement {NAME}")


def demo_steps(fairway: str, *, hosting: bool) -> dict[str, tuple[str, ...]]:
    """The same where the examples are applied already: what a newcomer may ask, and the commands that answer."""
    see, _, ask = steps(fairway)
    room = (f"{fairway} hosting capacity", f"{fairway} hosting explain {REQUEST_NAME}")
    return {
        "Which clusters are there, and why were these three selected?": (see, ask),
        "What moves, and why?": (f"{fairway} get decisions --watch",),
        **(
            {
                f"Where is room for hosted clusters, and why is {REQUEST_NAME} where it is?": room,
                "What happens when it is deleted?": (f"{fairway} hosting delete {REQUEST_NAME} --wait",),
            }
            if hosting
            else {}
        ),
    }


def machine_steps(fairway: str) -> tuple[str, ...]:
    """Watch nodes and virtual machines, and show their migrations."""
    return (f"{fairway} machines top", f"{fairway} machines migrations", "kubectl get vm,pods -A -o wide")
