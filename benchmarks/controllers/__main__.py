"""The placement controller beside the raw write limit of the hub it runs on: convergence, reaction, cold start.

    python -m benchmarks.controllers                   everything; half an hour
    python -m benchmarks.controllers --quick           less of everything; two minutes
    python -m benchmarks.controllers --only b --hub embedded
    python -m benchmarks.controllers --only b --beside ../last --rounds 3
                                                       alternating with the version in another folder, on one hub

(a) placements converged per second, 1,000 and 10,000 over 1,000 clusters, beside the hub's raw write limit
(b) score written → decision written, with 1,000 clusters reporting every minute and 500 placements
(c) CPU, memory and time from process start to the first decision, at 1k, 10k and 50k clusters

The controller and every hub are separate processes on the same machine; this one generates the load. Compare ratios of
one run, and seconds only with those of the same machine under the same load.
"""

import argparse
import asyncio
import itertools
import os
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from benchmarks.controllers import convergence, reaction, start
from benchmarks.controllers.objects import Fleet
from benchmarks.controllers.stage import EMBEDDED, REAL, Stage, staged
from benchmarks.measure import Note, machine, teller, write_json
from rigs.kubernetes import ToolsMissing

PARTS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    clusters: int
    placements: tuple[int, ...]
    reacting: int
    seconds: float
    fleets: tuple[int, ...]
    rounds: int
    period: float = 60.0


FULL = Sizes(
    clusters=1_000,
    placements=(1_000, 10_000),
    reacting=500,
    seconds=180,
    fleets=(1_000, 10_000, 50_000),
    rounds=3,
)
QUICK = Sizes(clusters=1_000, placements=(500,), reacting=500, seconds=20, fleets=(1_000,), rounds=1)


async def run(
    sizes: Sizes, *, parts: str, kinds: list[str], fsync: bool, profile: str, beside: str, floor: bool
) -> dict[str, Any]:
    results: dict[str, Any] = {"machine": machine()}
    versions = {"this version": "", **({"beside": beside} if beside else {})}

    def stage(kind: str, fleet: Fleet, part: str, note: Note) -> AbstractAsyncContextManager[Stage]:
        path = os.path.join(profile, f"{part}.prof") if profile else ""
        return staged(kind, fleet, note=note, fsync=fsync, profile=path)

    print(machine(), flush=True)
    if "a" in parts:
        ways = []
        for kind in kinds:
            for count in sizes.placements:
                for way, version in itertools.product(convergence.WAYS, versions):
                    note = teller(f"a {kind} {way} {count:,} {version}")
                    async with stage(kind, Fleet(clusters=sizes.clusters), "a", note) as hub:
                        hub.tree = versions[version]
                        result = await convergence.measure(hub, way, count=count, note=note)
                        ways.append((f"{hub.name}, {version}" if beside else hub.name, way, result))
        print(convergence.shown(ways), end="\n\n", flush=True)
        results["a"] = ways
    if "b" in parts:
        reactions = []
        for kind in kinds:
            note = teller(f"b {kind}")
            fleet = Fleet(clusters=sizes.clusters, groups=reaction.GROUPS)
            rounds: dict[str, list[dict[str, Any]]] = {version: [] for version in versions}
            async with stage(kind, fleet, "b", note) as hub:
                for at, version in itertools.product(range(sizes.rounds if beside else 1), versions):
                    hub.tree = versions[version]
                    measured = await reaction.measure(
                        hub,
                        placements=sizes.reacting,
                        seconds=sizes.seconds,
                        period=sizes.period,
                        floor=floor and not rounds["this version"],
                        note=note,
                    )
                    rounds[version].append(measured)
                    note(f"{version}: {reaction.brief(measured)}")
                    name = f"{hub.name}, {version}, round {at + 1}" if beside else hub.name
                    reactions.append((name, measured))
            if beside:
                print(reaction.compared(rounds), end="\n\n", flush=True)
        print(reaction.shown(reactions), end="\n\n", flush=True)
        results["b"] = reactions
    if "c" in parts:
        starts = []
        for kind in kinds:
            for size in sizes.fleets:
                note = teller(f"c {kind} {size:,}")
                async with stage(kind, Fleet(clusters=size), "c", note) as hub:
                    starts.append((hub.name, await start.measure(hub, rounds=sizes.rounds, note=note)))
        print(start.shown(starts), end="\n\n", flush=True)
        results["c"] = starts
    print(machine())
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.controllers",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=(__doc__ or "").split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes and shorter runs")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help="such as a,c")
    parser.add_argument("--hub", choices=(REAL, EMBEDDED, "both"), default=REAL)
    parser.add_argument("--fsync", action="store_true", help="make etcd sync to disk")
    parser.add_argument("--placements", type=int, nargs="+", metavar="N", help="number of placements in (a)")
    parser.add_argument("--clusters", type=int, metavar="N", help="clusters in (a) and (b)")
    parser.add_argument("--reacting", type=int, metavar="N", help="placements in (b)")
    parser.add_argument("--period", type=float, metavar="N", help="seconds between two scores of a cluster")
    parser.add_argument("--seconds", type=float, metavar="N", help="duration of (b)")
    parser.add_argument("--fleets", type=int, nargs="+", metavar="N", help="clusters in (c)")
    parser.add_argument(
        "--beside", metavar="DIR", default="", help="also measure the version in DIR, in turns"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of (b) with --beside")
    parser.add_argument(
        "--floor", action=argparse.BooleanOptionalAction, default=True, help="measure bare writers in (b)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE as JSON")
    parser.add_argument(
        "--profile", metavar="DIR", default="", help="write profiles of the controller to DIR"
    )
    given = parser.parse_args()
    usual = QUICK if given.quick else FULL
    sizes = Sizes(
        clusters=given.clusters or usual.clusters,
        placements=tuple(given.placements or usual.placements),
        reacting=given.reacting or usual.reacting,
        seconds=given.seconds or usual.seconds,
        fleets=tuple(given.fleets or usual.fleets),
        rounds=given.rounds or usual.rounds,
        period=given.period or usual.period,
    )
    kinds = [REAL, EMBEDDED] if given.hub == "both" else [given.hub]
    try:
        results = asyncio.run(
            run(
                sizes,
                parts=given.only,
                kinds=kinds,
                fsync=given.fsync,
                profile=given.profile,
                beside=given.beside,
                floor=given.floor,
            )
        )
    except ToolsMissing as missing:
        sys.exit(f"{missing}\nRun `make kube-tools` first, or pass --hub embedded.")
    if given.json:
        write_json(given.json, results)


if __name__ == "__main__":
    main()
