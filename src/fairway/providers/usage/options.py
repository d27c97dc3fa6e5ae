"""Options of the resource-usage provider.

basis: both                    # the larger of requested and used; or requests, or usage
countNotReady: false           # count nodes that reject ordinary pods
countCordoned: false
countTainted: false
controlPlane: by-taint         # or count, or ignore
toleratedTaints: [dedicated=batch, maintenance:NoSchedule]
nodeSelector: "pool notin (edge)"
countTerminating: true
countPending: false            # subtract requests of pending pods
resources: {gpu: nvidia.com/gpu, fpga: xilinx.com/fpga}
shapes: {web: {cpu: 500m, memory: 1Gi}}
scales: {available: linear, node: logarithmic, cluster: logarithmic, pods: logarithmic, slots: logarithmic}
limits: {cpuAvailable: 100, mem: 1Ti}
scores: [cpuAvailable, memAvailable]
resource: resource-usage-score # the name of the AddOnPlacementScore
ratios: false                  # also ResourceRatioCPU and ResourceRatioMemory: free percentage
floor: 0                       # score of the worst value; -100 is OCM's symmetric form, 200 * x / max - 100
parity: none                   # or upstream, or upstream-fixed
interval: 60s
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from msgspec import Struct
from msgspec import field as option

from fairway.api.pod_requests import CPU, MEMORY, PODS, amounts_of
from fairway.providers.catalogue import OptionsError
from fairway.providers.declared import BAD_RESOURCE as BAD_NAME
from fairway.providers.definition import is_resource
from fairway.providers.document import Document, DocumentError, Seconds
from fairway.providers.provider import INTERVAL_SECONDS
from fairway.providers.scales import FLOOR
from fairway.providers.usage.accounting import Basis, Shape
from fairway.providers.usage.policy import UPSTREAM, ControlPlane, CountingPolicy, Toleration
from kubewire.api.annotation import QuantityText
from kubewire.api.quantity import Quantity, QuantityError

Spread = Literal["linear", "share", "logarithmic"]
"""``linear`` is ``100 * x / max``; ``share`` is another name for it."""
Parity = Literal["none", "upstream", "upstream-fixed"]
Floor = Literal[0, -100]

RESOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {"cpu": CPU, "mem": MEMORY, "gpu": "nvidia.com/gpu", "tpu": "google.com/tpu"}
)
"""Resources by the prefix of their scores."""

SCORE_OBJECT: Final = "resource-usage-score"
SHORTEST_INTERVAL: Final = 1.0
MOST_SHAPES: Final = 50
MAX_CPU: Final = "MAXCPUCOUNT"
MAX_MEMORY: Final = "MAXMEMCOUNT"
ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({MAX_CPU: "cpu", MAX_MEMORY: "mem"})
"""Limits of cpuAvailable and memAvailable, as in OCM's example: cores, and MiB unless a unit is given."""

BAD_RESOURCE_KEY: Final = (
    "{given!r} cannot start the name of a score: use letters and digits, starting with a lower-case letter"
)
RESERVED_KEY: Final = "{given!r} is reserved: podsAvailable counts pods already"
BAD_RESOURCE: Final = (
    '{given!r} is not a resource: write its name, such as "nvidia.com/gpu", or null to omit it'
)
BAD_SHAPE_NAME: Final = "{given!r} is not a valid name of a shape: use lower-case letters, digits and '-'"
EMPTY_SHAPE: Final = "requests nothing; write the requests of one pod, such as {cpu: 500m, memory: 1Gi}"
NEGATIVE: Final = "{given!r} is negative; write 0 or more"
TOO_MANY_SHAPES: Final = f"there are more than {MOST_SHAPES}"
NOT_POSITIVE: Final = "{given!r} must be greater than 0: it is the value that scores 100"
TOO_OFTEN: Final = f"must be at least {SHORTEST_INTERVAL:g}s"
PARITY_DECIDES: Final = "parity determines it; remove it, or write parity: none"
ONLY: Final = "SCORES"
"""Environment variable with the scores to publish, separated by commas."""
FLOOR_VARIABLE: Final = "SCORE_FLOOR"
PARITY_VARIABLE: Final = "PARITY"
NAME_VARIABLE: Final = "SCORE_NAME"
RATIOS_VARIABLE: Final = "RATIOS"
BAD_SWITCH: Final = "{given!r} is neither true nor false"
BAD_FLOOR: Final = "{given!r} is not a valid floor: write 0, or -100 for OCM's symmetric form"
BAD_PARITY: Final = "{given!r} is not a valid parity: write one of {known}"
IN_ENVIRONMENT: Final = "the environment variable {name}: {reason}"

_KEY: Final = re.compile(r"[a-z][a-zA-Z0-9]{0,62}")
_RESOURCE: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SHAPE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MIB: Final = 2**20
_LARGEST: Final = 2**63
_NANO: Final = -9


class Scales(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    available: Spread = "linear"
    node: Spread = "logarithmic"
    cluster: Spread = "logarithmic"
    pods: Spread = "logarithmic"
    slots: Spread = "logarithmic"


class _UsageConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    basis: Basis = "both"
    count_not_ready: bool = False
    count_cordoned: bool = False
    count_tainted: bool = False
    control_plane: ControlPlane = "by-taint"
    tolerated_taints: tuple[str, ...] = ()
    node_selector: str = ""
    count_terminating: bool = True
    count_pending: bool = False
    resources: dict[str, str | None] = option(default_factory=dict)
    shapes: dict[str, dict[str, QuantityText]] = option(default_factory=dict)
    scales: Scales = Scales()
    limits: dict[str, QuantityText] = option(default_factory=dict)
    scores: tuple[str, ...] = ()
    resource: str = SCORE_OBJECT
    ratios: bool = False
    floor: Floor = FLOOR
    parity: Parity = "none"
    interval: Seconds = option(default_factory=lambda: Seconds(INTERVAL_SECONDS))


PARITY_EXCLUDES: Final = (
    "basis", "countNotReady", "countCordoned", "countTainted", "controlPlane", "toleratedTaints",
    "countTerminating", "countPending", "resources", "scales", "limits", "floor", "ratios",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageOptions:
    basis: Basis = "both"
    policy: CountingPolicy = field(default_factory=CountingPolicy)
    node_selector: str = ""
    count_pending: bool = False
    resources: Mapping[str, str] = field(default_factory=lambda: RESOURCES)
    """Resources by the prefix of their scores."""
    shapes: tuple[Shape, ...] = ()
    scales: Scales = field(default_factory=Scales)
    limits: Mapping[str, float] = field(default_factory=dict)
    """Values that score 100, by score name or prefix: cores, bytes, counts."""
    scores: tuple[str, ...] = ()
    """Scores to publish; all if empty."""
    resource: str = SCORE_OBJECT
    """Name of the AddOnPlacementScore."""
    ratios: bool = False
    """Whether to publish the calculators of free percentages, too."""
    floor: int = FLOOR
    """Score of the worst value."""
    parity: Parity = "none"
    interval: float = INTERVAL_SECONDS

    @classmethod
    def read(
        cls, given: Mapping[str, Any], *, environment: Mapping[str, str] | None = None
    ) -> "UsageOptions":
        """Options override environment variables. Raises OptionsError."""
        environment = os.environ if environment is None else environment
        given = {**_options_of(environment), **given}
        try:
            entry = Document(dict(given), "").convert(_UsageConfig)
        except DocumentError as error:
            raise OptionsError(error.message, field=error.field) from None
        if entry.parity != "none":
            for name in PARITY_EXCLUDES:
                if name in given:
                    raise OptionsError(PARITY_DECIDES, field=name)
        if entry.interval < SHORTEST_INTERVAL:
            raise OptionsError(TOO_OFTEN, field="interval")
        if not is_resource(entry.resource):
            raise OptionsError(BAD_NAME.format(given=entry.resource), field="resource")
        upstream = entry.parity != "none"
        named = tuple(part.strip() for part in environment.get(ONLY, "").split(",") if part.strip())
        resources, limits = _resources(entry.resources), _limits(entry.limits)
        for key, limit in _limits_of(environment).items():
            if key in resources and key not in limits and not upstream:
                limits.setdefault(f"{key}Available", limit)
        return cls(
            basis="requests" if upstream else entry.basis,
            policy=UPSTREAM if upstream else _policy(entry),
            node_selector=entry.node_selector,
            count_pending=entry.count_pending,
            resources=resources,
            shapes=_shapes(entry.shapes),
            scales=entry.scales,
            limits=MappingProxyType(limits),
            scores=entry.scores or named,
            resource=entry.resource,
            ratios=entry.ratios,
            floor=entry.floor,
            parity=entry.parity,
            interval=float(entry.interval),
        )


def _policy(entry: _UsageConfig) -> CountingPolicy:
    tolerated = []
    for index, text in enumerate(entry.tolerated_taints):
        try:
            tolerated.append(Toleration.parse(text))
        except ValueError as error:
            raise OptionsError(str(error), field=f"toleratedTaints[{index}]") from None
    return CountingPolicy(
        not_ready=entry.count_not_ready,
        cordoned=entry.count_cordoned,
        tainted=entry.count_tainted,
        control_plane=entry.control_plane,
        tolerated=tuple(tolerated),
        terminating=entry.count_terminating,
    )


def _resources(given: Mapping[str, str | None]) -> Mapping[str, str]:
    resources: dict[str, str | None] = dict(RESOURCES)
    for key, name in given.items():
        if not _KEY.fullmatch(key):
            raise OptionsError(BAD_RESOURCE_KEY.format(given=key), field=f"resources[{key}]")
        if key == PODS:
            raise OptionsError(RESERVED_KEY.format(given=key), field=f"resources.{key}")
        if name is not None and not _RESOURCE.fullmatch(name):
            raise OptionsError(BAD_RESOURCE.format(given=name), field=f"resources.{key}")
        resources[key] = name
    return MappingProxyType({key: name for key, name in resources.items() if name is not None})


def _shapes(given: Mapping[str, Mapping[str, QuantityText]]) -> tuple[Shape, ...]:
    if len(given) > MOST_SHAPES:
        raise OptionsError(TOO_MANY_SHAPES, field="shapes")
    shapes = []
    for name, requests in given.items():
        at = f"shapes.{name}"
        if not _SHAPE.fullmatch(name):
            raise OptionsError(BAD_SHAPE_NAME.format(given=name), field=f"shapes[{name}]")
        asked: dict[str, int] = {}
        for resource, quantity in requests.items():
            try:
                amount = amounts_of({resource: quantity})[resource]
            except QuantityError as error:
                raise OptionsError(str(error).partition(": ")[2], field=f"{at}[{resource}]") from None
            if amount < 0:
                raise OptionsError(NEGATIVE.format(given=quantity), field=f"{at}[{resource}]")
            if amount:
                asked[resource] = amount
        if not asked:
            raise OptionsError(EMPTY_SHAPE, field=at)
        shapes.append(Shape(name=name, vector=tuple(sorted({**asked, PODS: 1}.items()))))
    return tuple(shapes)


def _options_of(environment: Mapping[str, str]) -> dict[str, Any]:
    """Options from environment variables; empty variables are ignored."""
    options: dict[str, Any] = {}
    if parity := environment.get(PARITY_VARIABLE, "").strip():
        if parity not in get_args(Parity):
            reason = BAD_PARITY.format(given=parity, known=", ".join(get_args(Parity)))
            raise OptionsError(IN_ENVIRONMENT.format(name=PARITY_VARIABLE, reason=reason))
        options["parity"] = parity
    if floor := environment.get(FLOOR_VARIABLE, "").strip():
        if floor not in map(str, get_args(Floor)):
            reason = BAD_FLOOR.format(given=floor)
            raise OptionsError(IN_ENVIRONMENT.format(name=FLOOR_VARIABLE, reason=reason))
        options["floor"] = int(floor)
    if name := environment.get(NAME_VARIABLE, "").strip():
        options["resource"] = name
    if ratios := environment.get(RATIOS_VARIABLE, "").strip():
        if ratios not in ("true", "false"):
            reason = BAD_SWITCH.format(given=ratios)
            raise OptionsError(IN_ENVIRONMENT.format(name=RATIOS_VARIABLE, reason=reason))
        options["ratios"] = ratios == "true"
    return options


def _limits(given: Mapping[str, QuantityText]) -> dict[str, float]:
    limits = {}
    for name, quantity in given.items():
        try:
            limits[name] = _limit(quantity)
        except ValueError as error:
            raise OptionsError(str(error), field=f"limits.{name}") from None
    return limits


def _limits_of(environment: Mapping[str, str]) -> dict[str, float]:
    limits = {}
    for name, key in ENVIRONMENT.items():
        text = environment.get(name, "").strip()
        if not text:
            continue
        try:
            limit = _limit(text)
        except ValueError as error:
            raise OptionsError(IN_ENVIRONMENT.format(name=name, reason=error)) from None
        limits[key] = limit * _MIB if name == MAX_MEMORY and not text[-1].isalpha() else limit
    return limits


def _limit(quantity: QuantityText) -> float:
    """Raises ValueError."""
    amount = Quantity.parse(quantity)
    billionths = amount.in_units(_NANO, most=_LARGEST * 10**-_NANO)
    if not 0 < billionths < _LARGEST * 10**-_NANO:
        raise QuantityError(NOT_POSITIVE.format(given=quantity))
    return billionths / 10**-_NANO
