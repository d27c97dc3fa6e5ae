"""`fairway run --controllers machines` as a process behind a proxy, killed while its writes wait there.

A write that a test cuts is held before the hub gets it, or its response is: then the hub has carried it out, and the
process does not know. So the step in which the process dies is certain.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forked
from controllers.chaos.proxy import WELL, Fate, ProxiedRequest, Proxy, proxied
from fairway.workloads.machines.migration import Phase

FOREVER = 86_400.0
"""Seconds."""
MIGRATIONS = "/virtualmachinemigrations"
RECORDS = "/machinemigrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Writes at which the process waits until it is killed."""

    matches: Callable[[ProxiedRequest], bool]
    carried_out: bool = True
    """Whether the hub gets them."""
    once: bool = False
    """Whether this is only about the first one."""
    reached: asyncio.Event = field(default_factory=asyncio.Event)


class KillableScheduler:
    """Open with ``killable_scheduler``."""

    def __init__(self, proxy: Proxy, command: tuple[object, ...], log: Path) -> None:
        self._command, self._log = command, log
        self._cuts: tuple[Cut, ...] = ()
        proxy.fate = self._fate

    def _fate(self, asked: ProxiedRequest) -> Fate:
        if asked.method == "GET":
            return WELL
        for cut in self._cuts:
            if not (cut.once and cut.reached.is_set()) and cut.matches(asked):
                cut.reached.set()
                return Fate(late=FOREVER) if cut.carried_out else Fate(held=FOREVER)
        return WELL

    @asynccontextmanager
    async def life(self, *cuts: Cut, options: tuple[object, ...] = ()) -> AsyncIterator[forked.Child]:
        """Run the process, kill it with SIGKILL when the block ends, and check that it lived until then."""
        self._cuts = cuts
        process = forked.Child(forked.COMMAND, *self._command, *options, log=self._log)
        try:
            yield process
            assert process.status is None, process.tail()
        except BaseException as error:
            error.add_note(process.tail())
            raise
        finally:
            process.kill()


@asynccontextmanager
async def killable_scheduler(
    kubeconfig: Path, folder: Path, *options: object
) -> AsyncIterator[KillableScheduler]:
    async with proxied(kubeconfig) as proxy:
        file = folder / "proxy.kubeconfig"
        file.write_text(json.dumps(_kubeconfig(proxy.url)), encoding="utf-8")
        command = ("run", "--controllers", "machines", "--kubeconfig", file, *options)
        yield KillableScheduler(proxy, command, folder / "mortal.log")


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        "current-context": "proxy",
    }


# Writes


def binding_of(*pods: str) -> Callable[[ProxiedRequest], bool]:
    return lambda asked: asked.path.endswith(tuple(f"/pods/{pod}/binding" for pod in pods))


def deletion_of(*pods: str) -> Callable[[ProxiedRequest], bool]:
    return lambda asked: (
        asked.method == "DELETE" and asked.path.endswith(tuple(f"/pods/{pod}" for pod in pods))
    )


def permit_of(vm: str) -> Callable[[ProxiedRequest], bool]:
    return lambda asked: asked.method == "PATCH" and asked.path.endswith(f"/virtualmachines/{vm}")


def record_of(vm: str, phase: Phase) -> Callable[[ProxiedRequest], bool]:
    return lambda asked: (
        RECORDS in asked.path
        and any(
            (record["machine"]["name"], record["phase"]) == (vm, phase)
            for record in _records(json.loads(asked.body or b"null"))
        )
    )


def cancellation_of(vm: str) -> Callable[[ProxiedRequest], bool]:
    return lambda asked: asked.method == "DELETE" and f"{MIGRATIONS}/{vm}-" in asked.path


def _records(document: object) -> Iterator[dict[str, Any]]:
    """Yield the specs of records that an object or a JSON patch has."""
    if isinstance(document, dict) and "spec" in document:
        yield document["spec"]
    elif isinstance(document, list):
        yield from (operation["value"] for operation in document if operation["path"] == "/spec")
