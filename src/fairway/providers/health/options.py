"""Options of the health provider.

namespaces: [kube-system, "openshift-*"]   # whose pods are the control plane and add-ons
weights: {healthRestarts: 0}               # 0 excludes a part from health; it is still published
window: 10m                                # how far back restarts and requests count
probe: /api/v1/namespaces/kube-system      # path and interval of the probe requests
probeInterval: 10s
probeTimeout: 10s
thresholds: [40, 60]                       # crossing these is published at once
interval: 60s
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct
from msgspec import field as option

from fairway.providers.catalogue import OptionsError
from fairway.providers.document import Document, DocumentError, Seconds
from fairway.providers.health.parts import PARTS, THRESHOLDS, WEIGHTS
from fairway.providers.provider import HIGHEST, INTERVAL_SECONDS, LOWEST

NAMESPACES: Final = (
    "kube-system",
    "openshift-*",
    "open-cluster-management-agent",
    "open-cluster-management-agent-addon",
)
PROBE: Final = "/api/v1/namespaces/kube-system"

TOO_SHORT: Final = "must be at least {least:g}s"
TOO_SLOW: Final = "must be shorter than the window, which is {window}"
NO_PART: Final = "is not a part of health; the parts are {known}"
BAD_WEIGHT: Final = "a weight must be 0 or more; got {given!r}"
NO_WEIGHT: Final = "all weights are 0: give one part a weight"
NO_NAMESPACES: Final = "must name at least one namespace, or a pattern like openshift-*"
NO_PATH: Final = "{given!r} is not a path of the API server: begin with /"
BAD_THRESHOLD: Final = "must be from -100 to 100; got {given}"


class _HealthConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    namespaces: tuple[str, ...] = NAMESPACES
    weights: dict[str, float] = option(default_factory=dict)
    window: Seconds = option(default_factory=lambda: Seconds(600))
    probe: str = PROBE
    probe_interval: Seconds = option(default_factory=lambda: Seconds(10))
    probe_timeout: Seconds = option(default_factory=lambda: Seconds(10))
    thresholds: tuple[int, ...] = THRESHOLDS
    interval: Seconds = option(default_factory=lambda: Seconds(INTERVAL_SECONDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthOptions:
    """Times are in seconds."""

    namespaces: tuple[str, ...] = NAMESPACES
    """Names or patterns."""
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    window: float = 600.0
    probe: str = PROBE
    probe_interval: float = 10.0
    probe_timeout: float = 10.0
    thresholds: tuple[int, ...] = THRESHOLDS
    interval: float = INTERVAL_SECONDS

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "HealthOptions":
        """Raises OptionsError."""
        try:
            entry = Document(dict(given), "").convert(_HealthConfig)
        except DocumentError as error:
            raise OptionsError(error.message, field=error.field) from None
        _check(entry)
        return cls(
            namespaces=entry.namespaces,
            weights={**WEIGHTS, **entry.weights},
            window=float(entry.window),
            probe=entry.probe,
            probe_interval=float(entry.probe_interval),
            probe_timeout=float(entry.probe_timeout),
            thresholds=entry.thresholds,
            interval=float(entry.interval),
        )


def _check(entry: _HealthConfig) -> None:
    least = (
        ("window", entry.window, 60.0),
        ("probeInterval", entry.probe_interval, 1.0),
        ("probeTimeout", entry.probe_timeout, 0.1),
        ("interval", entry.interval, 1.0),
    )
    for name, value, shortest in least:
        if value < shortest:
            raise OptionsError(TOO_SHORT.format(least=shortest), field=name)
    if entry.probe_interval >= entry.window:
        raise OptionsError(TOO_SLOW.format(window=entry.window), field="probeInterval")
    for name, weight in entry.weights.items():
        if name not in PARTS:
            raise OptionsError(NO_PART.format(known=", ".join(PARTS)), field=f"weights.{name}")
        if not (math.isfinite(weight) and weight >= 0):
            raise OptionsError(BAD_WEIGHT.format(given=weight), field=f"weights.{name}")
    if not any({**WEIGHTS, **entry.weights}.values()):
        raise OptionsError(NO_WEIGHT, field="weights")
    if not entry.namespaces or not all(entry.namespaces):
        raise OptionsError(NO_NAMESPACES, field="namespaces")
    if not entry.probe.startswith("/"):
        raise OptionsError(NO_PATH.format(given=entry.probe), field="probe")
    for at, threshold in enumerate(entry.thresholds):
        if not LOWEST <= threshold <= HIGHEST:
            raise OptionsError(BAD_THRESHOLD.format(given=threshold), field=f"thresholds[{at}]")
