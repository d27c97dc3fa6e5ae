"""Simulate the agents of virtual machines: each asks for the size that its load needs, and sets the size it may have.

A machine grows in this order: the scheduler permits it, then the spec of its VirtualMachine changes. It shrinks in the
opposite order. An agent leaves a machine alone that migrates.

The load of a machine with the label ``SYNTHETIC`` changes at random, derived from a seed. The annotation ``DEMAND``
sets what any machine asks for, in CPUs.
"""

import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.pod_requests import CPU, MEMORY
from fairway.api.resources import VIRTUAL_MACHINES
from fairway.api.virtual_machine import (
    APPROVED,
    AUTOSCALING_LABEL,
    VM_PRE_MIGRATING,
    VM_RUNNING,
    VirtualMachine,
)
from fairway.engine.workload import ResourceList
from fairway.simulation.machines.kubelet import SYNTHETIC
from fairway.simulation.machines.neonvm import asked_size
from fairway.simulation.machines.reconcile import ReconcileLoop, objects_of
from fairway.workloads.machines.permit_protocol import (
    PROTOCOL_V5,
    Permit,
    PermitError,
    PermitRequest,
    decode_size,
    encode_size,
)
from fairway.workloads.machines.size import ONE, exceeds
from kubewire.api.resource import Key, key_of
from kubewire.client import SYSTEM_CLOCK, Batch, Client, Clock, Informer, NotFound, Patch

log: Final = logging.getLogger(__name__)

DEMAND: Final = "fairway.dev/demand"
"""Annotation of a VirtualMachine: the CPUs that its synthetic agent asks for."""
UNIT: Final[ResourceList] = {CPU: 250, MEMORY: (1 << 30) * ONE}
"""The compute unit of synthetic agents: a quarter of a CPU and 1 GiB."""
RETRY_SECONDS: Final = 5.0
SPREAD: Final = 0.5
"""Standard deviation of the logarithm of a machine's load."""
NEVER: Final = float("inf")
REFUSED: Final = "agent of %s/%s: permit refused, retrying: %s"

AskPermit = Callable[[PermitRequest], Awaitable[Permit]]
"""Sends a request to the scheduler. Raises PermitError."""


@dataclass(slots=True)
class _Load:
    """The random load of one machine, in compute units."""

    dice: random.Random
    base: int
    units: int
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What an agent last asked for, as which pod, and what it may have."""

    pod: str
    asked: ResourceList
    permit: ResourceList
    at: float


class ScalingAgents:
    """Agents of all machines with the label for autoscaling. Loads change every ``period`` seconds on average."""

    def __init__(
        self,
        client: Client,
        ask: AskPermit,
        *,
        seed: int = 0,
        period: float = 60.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client, self._ask, self._clock = client, ask, clock
        self._seed, self._period = seed, period
        self._machines = Informer(client, VIRTUAL_MACHINES, labels=f"{AUTOSCALING_LABEL}=true")
        self._loads: dict[Key, _Load] = {}
        self._answers: dict[Key, _Answer] = {}
        self._loop: ReconcileLoop[Key] = ReconcileLoop("synthetic agents", self._reconcile)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ScalingAgents"]:
        async with self._loop.running(self._machines):
            unsubscribe = self._machines.subscribe(self._changed)
            try:
                yield self
            finally:
                unsubscribe()

    def _changed(self, batch: Batch[VirtualMachine]) -> None:
        for vm in objects_of(batch):
            self._loop.add(key_of(vm))

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        vm = self._machines.get(name, namespace=namespace)
        if vm is None:
            self._loads.pop(key, None)
            self._answers.pop(key, None)
            return None
        if vm.status.phase not in (VM_RUNNING, VM_PRE_MIGRATING) or not vm.status.podName:
            return None
        wanted, changes_in = self._wanted(key, vm)
        using = asked_size(vm)
        if not exceeds(wanted, using) and exceeds(using, wanted):
            await self._resize(vm, wanted)
        answer = self._answers.get(key)
        if self._is_due(vm, wanted, answer):
            answer = await self._request(key, vm, wanted)
        if answer is None:
            return RETRY_SECONDS
        if exceeds(answer.permit, using) and not exceeds(answer.permit, wanted):
            await self._resize(vm, answer.permit)
        denied = exceeds(wanted, answer.permit)
        return min(changes_in, RETRY_SECONDS) if denied else None if changes_in == NEVER else changes_in

    def _is_due(self, vm: VirtualMachine, wanted: ResourceList, answer: _Answer | None) -> bool:
        if answer is None or answer.pod != vm.status.podName or answer.asked != wanted:
            return True
        if not exceeds(wanted, answer.permit):
            return False
        recorded = vm.metadata.annotations.get(APPROVED)
        with suppress(PermitError):
            if recorded is not None and exceeds(decode_size(recorded, path=APPROVED), answer.permit):
                return True
        return self._clock.monotonic() - answer.at >= RETRY_SECONDS

    async def _request(self, key: Key, vm: VirtualMachine, wanted: ResourceList) -> _Answer | None:
        before = self._answers.get(key)
        pod = vm.status.podName
        request = PermitRequest(
            namespace=vm.metadata.namespace,
            name=pod,
            unit=UNIT,
            resources=wanted,
            last_permit=None if before is None else before.permit,
        )
        try:
            permit = await self._ask(request)
        except PermitError as error:
            log.debug(REFUSED, *key, error)
            return None
        answer = _Answer(pod=pod, asked=wanted, permit=permit.resources, at=self._clock.monotonic())
        self._answers[key] = answer
        return answer

    def _wanted(self, key: Key, vm: VirtualMachine) -> tuple[ResourceList, float]:
        """Return what a machine needs now, and in how many seconds that may change."""
        guest = vm.spec.guest
        least, most = guest.memorySlots.min, max(guest.memorySlots.max, 1)
        asked = vm.metadata.annotations.get(DEMAND, "")
        if asked.replace(".", "", 1).isdigit():
            return scaled(min(most, max(least, round(float(asked) * ONE) // UNIT[CPU]))), NEVER
        using = asked_size(vm)
        if vm.metadata.labels.get(SYNTHETIC) != "true":
            return using, NEVER
        now = self._clock.monotonic()
        load = self._loads.get(key)
        if load is None:
            dice = random.Random(f"fairway machine {self._seed} {'/'.join(key)}")
            units = max(1, using.get(CPU, 0) // UNIT[CPU])
            load = self._loads[key] = _Load(dice, units, units, now + dice.expovariate(1 / self._period))
        while load.until <= now:
            load.units = min(most, max(least, round(load.base * load.dice.lognormvariate(0, SPREAD))))
            load.until += load.dice.expovariate(1 / self._period)
        return scaled(load.units), max(0.01, load.until - now)

    async def _resize(self, vm: VirtualMachine, size: ResourceList) -> None:
        body = {"spec": {"guest": guest_size(size)}}
        meta = vm.metadata
        with suppress(NotFound):
            patched = await self._client.patch(
                VIRTUAL_MACHINES, meta.name, body, kind=Patch.MERGE, namespace=meta.namespace
            )
            self._machines.observe(patched)


def scaled(units: int) -> dict[str, int]:
    return {name: units * amount for name, amount in UNIT.items()}


def guest_size(size: ResourceList) -> dict[str, Any]:
    """Return the fields of a guest that set its size; memory slots have 1 GiB."""
    encoded = encode_size(size)
    return {
        "cpus": {"use": encoded["vCPUs"]},
        "memorySlots": {"use": size.get(MEMORY, 0) // UNIT[MEMORY]},
    }


def encode_permit_request(request: PermitRequest) -> Mapping[str, Any]:
    """Return the body of a request in the protocol of agents."""
    return {
        "protoVersion": PROTOCOL_V5,
        "pod": {"namespace": request.namespace, "name": request.name},
        "computeUnit": encode_size(request.unit),
        "resources": encode_size(request.resources),
        "lastPermit": None if request.last_permit is None else encode_size(request.last_permit),
        "metrics": None if request.load is None else {"loadAvg1M": request.load},
    }
