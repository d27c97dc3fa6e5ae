"""The controller under test as a process, like ``fairway run --controllers placement``.

    python -m benchmarks.controllers.child --kubeconfig FILE [--controller NAME] [--profile FILE]

Answers the requests ``figures``, ``phases`` (time by phase since the last request) and ``meters`` (the controller's
metrics, which takes longer).
"""

import argparse
import asyncio
import cProfile
import logging
import re
import time
from contextlib import nullcontext
from pathlib import Path

from benchmarks.controllers.phases import Phases
from benchmarks.controllers.process import answer, questions
from benchmarks.controllers.requests import Requests
from fairway.controllers.manager import Manager, running
from fairway.controllers.settings import ALL, PLACEMENT, Settings
from kubewire.client import load

_SAMPLE = re.compile(r"^(fairway_(?!build)\w+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)
_BUCKET = "_bucket{"


def samples(manager: Manager) -> dict[str, float]:
    """Return the controller's metrics without the buckets of histograms."""
    text = manager.meters.expose().decode()
    return {name: float(value) for name, value in _SAMPLE.findall(text) if _BUCKET not in name}


async def serve(kubeconfig: Path, *, controller: str) -> None:
    requests, phases = Requests(), Phases()
    synced: list[float] = []

    async def note(manager: Manager) -> None:
        await manager.synced()
        synced.append(time.monotonic())

    # Phases are those of the placement controller's methods.
    with requests.counted(), phases.noted() if controller == PLACEMENT else nullcontext():
        settings = Settings(controllers=frozenset({controller}))
        async with running(load(kubeconfig).context(None), settings) as manager:
            noting = asyncio.create_task(note(manager))
            async for question in questions():
                if question == "meters":
                    answer(samples(manager))
                    continue
                if question == "phases":
                    answer(phases.document())
                    continue
                answer(
                    {
                        **requests.document(),
                        "synced": synced[0] if synced else None,
                        "leading": bool(manager.leading) and all(manager.leading.values()),
                        "busy": any(controller.queue.busy for controller in manager.controllers.values()),
                    }
                )
            noting.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--controller", choices=sorted(ALL), default=PLACEMENT)
    parser.add_argument("--profile", metavar="FILE", help="write the cProfile result to FILE")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    profile = cProfile.Profile() if arguments.profile else None
    if profile is not None:
        profile.enable()
    try:
        asyncio.run(serve(arguments.kubeconfig, controller=arguments.controller))
    finally:
        if profile is not None:
            profile.disable()
            profile.dump_stats(arguments.profile)


if __name__ == "__main__":
    main()
