"""The protocol between the agent of a machine and the scheduler: one JSON request, one JSON reply.

An agent reports decreases, which it has already made, and requests increases. The permit is an upper bound: at most
what it requested, at least what the machine uses. Refused requests have an HTTP status and a message.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fairway.api.pod_requests import CPU, MEMORY, amount_of
from fairway.engine.workload import ResourceList
from fairway.workloads.machines.size import ONE
from kubewire.api.annotation import QuantityText
from kubewire.api.quantity import QuantityError

PROTOCOL_V5: Final = 7
"""The number on the wire for v5.0; the agent counts all versions since v1.0 from 1."""
VERSIONS: Final = {1: "v1.0", 2: "v1.1", 3: "v2.0", 4: "v2.1", 5: "v3.0", 6: "v4.0", PROTOCOL_V5: "v5.0"}
LARGEST_BODY: Final = 1024
"""Bytes."""
LARGEST: Final[Mapping[str, int]] = {CPU: 512 * ONE, MEMORY: (64 << 40) * ONE}
"""512 CPUs and 64 TiB, in milli-units; larger sizes are mistakes."""

WIRE_NAMES: Final[Mapping[str, str]] = {CPU: "vCPUs", MEMORY: "mem"}

TOO_LARGE: Final = "the request has {size} bytes; at most {most} are accepted"
NOT_JSON: Final = "the request is not a JSON object: {reason}"
WRONG_VERSION: Final = "protoVersion {given} is not supported: send {number} ({name})"
NO_POD: Final = "pod.{field} must be set"
BAD_SIZE: Final = "{path} must be a quantity: {reason}"
NEGATIVE_SIZE: Final = "{path} must not be negative; got {given}"
ABSURD_SIZE: Final = "{path} must be at most {most}; got {given}"
ZERO_SIZE: Final = "{path} must not be 0"
UNKNOWN_POD: Final = "pod {pod} is unknown, or not bound to a node"
NOT_A_MACHINE: Final = "pod {pod} does not run a virtual machine"
NO_PERMITS: Final = "pod {pod} runs a virtual machine of KubeVirt, which has no permits"
NOT_SCALED: Final = (
    "no agent may scale VirtualMachine {vm} of pod {pod}: set its label autoscaling.neon.tech/enabled to true"
)
BELOW_MINIMUM: Final = (
    "resources.{field} must be at least {least}, the minimum of VirtualMachine {vm}; got {given}"
)
NOT_OWNER: Final = "pod {pod} does not run its virtual machine yet; ask again"
FOREIGN_POD: Final = (
    "the agent on node {node} may not request permits for pod {pod}, which runs on another node"
)
STARTING: Final = "the scheduler has not loaded all nodes and pods yet; ask again"
NOT_WRITTEN: Final = "the permit for pod {pod} could not be written to its virtual machine; ask again"

BAD_REQUEST, FORBIDDEN, NOT_FOUND, TOO_MUCH, UNAVAILABLE = 400, 403, 404, 413, 503


class PermitError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitRequest:
    """All sizes in milli-units."""

    namespace: str
    name: str
    unit: ResourceList
    resources: ResourceList
    last_permit: ResourceList | None = None
    load: float | None = None
    """Load average of the last minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    resources: ResourceList
    migrate: bool = False
    """Whether the machine itself migrates: its agent must not change its size."""
    migrations: tuple[str, ...] = ()
    """Migrations that make room for the denied part."""
    denied: ResourceList = field(default_factory=dict)


class _WireSize(msgspec.Struct, frozen=True, rename={"vcpus": "vCPUs"}):
    vcpus: QuantityText
    mem: QuantityText


class _WirePod(msgspec.Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class _WireMetrics(msgspec.Struct, frozen=True, rename={"load": "loadAvg1M"}):
    load: float | None = None


class _WireRequest(msgspec.Struct, frozen=True, rename="camel"):
    compute_unit: _WireSize
    resources: _WireSize
    pod: _WirePod = _WirePod()
    last_permit: _WireSize | None = None
    metrics: _WireMetrics | None = None


class _WireReply(msgspec.Struct, frozen=True, rename="camel"):
    permit: _WireSize
    migrate: dict[str, Any] | None = None
    waiting_for: tuple[str, ...] = ()


class _WireVersion(msgspec.Struct, frozen=True, rename="camel"):
    proto_version: int = 0


def decode_request(body: bytes) -> PermitRequest:
    """Decode and check a request. Raises PermitError with the status to answer."""
    if len(body) > LARGEST_BODY:
        raise PermitError(TOO_MUCH, TOO_LARGE.format(size=len(body), most=LARGEST_BODY))
    try:
        # Requests of other versions have other fields: the version is checked first.
        version = msgspec.json.decode(body, type=_WireVersion).proto_version
        if version != PROTOCOL_V5:
            given = VERSIONS.get(version, str(version))
            name = VERSIONS[PROTOCOL_V5]
            raise PermitError(BAD_REQUEST, WRONG_VERSION.format(given=given, number=PROTOCOL_V5, name=name))
        wire = msgspec.json.decode(body, type=_WireRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PermitError(BAD_REQUEST, NOT_JSON.format(reason=error)) from None
    for name, value in (("namespace", wire.pod.namespace), ("name", wire.pod.name)):
        if not value:
            raise PermitError(BAD_REQUEST, NO_POD.format(field=name))
    return PermitRequest(
        namespace=wire.pod.namespace,
        name=wire.pod.name,
        unit=_size("computeUnit", wire.compute_unit),
        resources=_size("resources", wire.resources),
        last_permit=None if wire.last_permit is None else _size("lastPermit", wire.last_permit),
        load=None if wire.metrics is None else wire.metrics.load,
    )


def encode_reply(permit: Permit) -> bytes:
    """Encode a reply. ``migrate`` is present only for a machine that moves: its agent then stops scaling it."""
    reply: dict[str, Any] = {"permit": encode_size(permit.resources)}
    if permit.migrate:
        reply["migrate"] = {}
    if permit.migrations:
        reply["waitingFor"] = list(permit.migrations)
    return json.dumps(reply, separators=(",", ":")).encode()


def decode_reply(body: bytes) -> Permit:
    """Decode a reply, as agents do. Raises PermitError."""
    try:
        wire = msgspec.json.decode(body, type=_WireReply)
    except msgspec.MsgspecError as error:
        raise PermitError(BAD_REQUEST, NOT_JSON.format(reason=error)) from None
    return Permit(
        resources=_size("permit", wire.permit),
        migrate=wire.migrate is not None,
        migrations=wire.waiting_for,
    )


def encode_size(size: ResourceList) -> dict[str, str | int]:
    """Encode a size as agents and annotations have it: CPUs as a number or in milli-CPUs, memory in bytes."""
    return {WIRE_NAMES[resource]: encode_amount(resource, size.get(resource, 0)) for resource in WIRE_NAMES}


def encode_amount(resource: str, amount: int) -> str | int:
    return amount // ONE if resource == MEMORY or amount % ONE == 0 else f"{amount}m"


def encode_size_text(size: ResourceList) -> str:
    """Encode a size for an annotation."""
    return json.dumps(encode_size(size), separators=(",", ":"))


def decode_size(text: str, *, path: str) -> ResourceList:
    """Decode a size in an annotation. Raises PermitError."""
    try:
        return _size(path, msgspec.json.decode(text, type=_WireSize))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PermitError(BAD_REQUEST, BAD_SIZE.format(path=path, reason=error)) from None


def _size(path: str, wire: _WireSize) -> ResourceList:
    return {
        CPU: _amount(f"{path}.vCPUs", CPU, wire.vcpus),
        MEMORY: _amount(f"{path}.mem", MEMORY, wire.mem),
    }


def _amount(path: str, resource: str, given: QuantityText) -> int:
    try:
        amount = amount_of(resource, given)
    except QuantityError as error:
        raise PermitError(BAD_REQUEST, BAD_SIZE.format(path=path, reason=error)) from None
    if amount < 0:
        raise PermitError(BAD_REQUEST, NEGATIVE_SIZE.format(path=path, given=given))
    if amount == 0:
        raise PermitError(BAD_REQUEST, ZERO_SIZE.format(path=path))
    milli = amount if resource == CPU else amount * ONE
    if milli > LARGEST[resource]:
        raise PermitError(
            BAD_REQUEST, ABSURD_SIZE.format(path=path, most=LARGEST[resource] // ONE, given=given)
        )
    return milli
