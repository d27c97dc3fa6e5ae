"""Refusals of requests for permits, each with the reason and what to do."""

from fairway.engine.workload import WorkloadKey
from fairway.workloads.machines.instructions import Reply
from fairway.workloads.machines.machine import VIRTUAL_MACHINE, Machine
from fairway.workloads.machines.permit_protocol import (
    BAD_REQUEST,
    BELOW_MINIMUM,
    NO_PERMITS,
    NOT_SCALED,
    WIRE_NAMES,
    PermitError,
    PermitRequest,
    encode_amount,
)


def refuse(key: WorkloadKey, status: int, message: str, **words: str) -> Reply:
    return Reply(key.namespace, key.name, PermitError(status, message.format(pod=key, **words)))


def below_minimum(machine: Machine, request: PermitRequest) -> Reply | None:
    """Return the refusal of a size that the machine cannot have. One that it has already is a fact."""
    for resource, amount in request.resources.items():
        least = min(machine.smallest.get(resource, 0), machine.using.get(resource, 0))
        if amount < least:
            message = BELOW_MINIMUM.format(
                field=WIRE_NAMES[resource],
                least=encode_amount(resource, machine.smallest[resource]),
                vm=f"{machine.key.namespace}/{machine.vm}",
                given=encode_amount(resource, amount),
            )
            return Reply(machine.key.namespace, machine.key.name, PermitError(BAD_REQUEST, message))
    return None


def not_scaled(machine: Machine) -> Reply:
    text = NOT_SCALED if machine.kind == VIRTUAL_MACHINE else NO_PERMITS
    return refuse(machine.key, BAD_REQUEST, text, vm=f"{machine.key.namespace}/{machine.vm}")
