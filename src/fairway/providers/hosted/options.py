"""Options of the hosted-clusters provider.

maximum: 80            # from here on the cluster is full; HC_MAX_NUMBER
threshold: 60          # HC_THRESHOLD_NUMBER
claims: true           # write the ClusterClaims
profiles:
  huge: {cpu: 40, memory: 150Gi, pods: 90}
baseline: {cpuRequestPerHCP: 4}
prometheus:            # of the hosting cluster, for request rates
  url: https://thanos-querier.openshift-monitoring.svc:9091
  auth: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec import field as option

from fairway.providers.catalogue import OptionsError
from fairway.providers.declared import SHORTEST_INTERVAL, TOO_OFTEN
from fairway.providers.document import Document, DocumentError, Seconds
from fairway.providers.endpoint import Endpoint
from fairway.providers.endpoint_entry import EndpointEntry
from fairway.providers.hosted.claims import MAXIMUM, THRESHOLD, Limits
from fairway.providers.hosted.sizing import PROFILES, REPLICAS, Baseline, Profile, SizingError
from fairway.providers.provider import INTERVAL_SECONDS
from kubewire.api.annotation import QuantityText
from kubewire.api.quantity import Quantity, QuantityError

VARIABLES: Final = {"maximum": "HC_MAX_NUMBER", "threshold": "HC_THRESHOLD_NUMBER"}
"""Variables of the hypershift add-on, used without options."""

NOT_USED: Final = "{variables} ignored; using the limits {maximum} and {threshold}"
BAD_NAME: Final = "{name!r} is not a valid name of a size: use letters and digits, starting with a letter"
BAD_AMOUNT: Final = "must be greater than 0, such as {example}"
BAD_COUNT: Final = "must be at least 1"


class _ProfileEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cpu: QuantityText
    memory: QuantityText
    pods: int
    replicas: int = REPLICAS


class _HostedConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    maximum: int | None = None
    threshold: int | None = None
    claims: bool = True
    profiles: dict[str, _ProfileEntry] = option(default_factory=dict)
    baseline: dict[str, QuantityText] = option(default_factory=dict)
    prometheus: EndpointEntry | None = None
    interval: Seconds = option(default_factory=lambda: Seconds(INTERVAL_SECONDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedOptions:
    limits: Limits = field(default_factory=Limits)
    claims: bool = True
    profiles: tuple[Profile, ...] = PROFILES
    baseline: Baseline = field(default_factory=Baseline)
    prometheus: Endpoint | None = None
    interval: float = INTERVAL_SECONDS
    note: str = ""
    """Remark for users about these options."""

    @classmethod
    def read(
        cls,
        given: Mapping[str, Any],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "HostedOptions":
        """Raises OptionsError."""
        environment = os.environ if environment is None else environment
        document = Document(dict(given), "")
        try:
            entry = document.convert(_HostedConfig)
            endpoint = None
            if entry.prometheus is not None:
                endpoint = Endpoint(
                    entry.prometheus, folder=folder or Path(), document=document, path=("prometheus",)
                )
        except DocumentError as error:
            raise OptionsError(error.message, field=error.field) from None
        if entry.interval < SHORTEST_INTERVAL:
            raise OptionsError(TOO_OFTEN, field="interval")
        try:
            baseline = Baseline.parse(entry.baseline)
        except SizingError as error:
            raise OptionsError(str(error), field="baseline") from None
        limits, note = _limits(entry, environment)
        return cls(
            limits=limits,
            note=note,
            claims=entry.claims,
            profiles=_profiles(entry.profiles),
            baseline=baseline,
            prometheus=endpoint,
            interval=float(entry.interval),
        )


def _limits(entry: _HostedConfig, environment: Mapping[str, str]) -> tuple[Limits, str]:
    """Return the limits and a remark about them."""
    if entry.maximum is None and entry.threshold is None:
        return _limits_of(environment)
    maximum = MAXIMUM if entry.maximum is None else entry.maximum
    threshold = min(THRESHOLD, maximum) if entry.threshold is None else entry.threshold
    try:
        return Limits(maximum=maximum, threshold=threshold), ""
    except ValueError as error:
        raise OptionsError(str(error), field="maximum") from None


def _limits_of(environment: Mapping[str, str]) -> tuple[Limits, str]:
    """Ignore invalid variables, as the hypershift add-on does."""
    try:
        limits = Limits(
            maximum=int(environment.get(VARIABLES["maximum"], MAXIMUM)),
            threshold=int(environment.get(VARIABLES["threshold"], THRESHOLD)),
        )
    except ValueError:
        given = [f"{name}={environment[name]!r}" for name in VARIABLES.values() if name in environment]
        limits = Limits()
        return limits, NOT_USED.format(
            variables=", ".join(given), maximum=limits.maximum, threshold=limits.threshold
        )
    return limits, ""


def _profiles(given: Mapping[str, _ProfileEntry]) -> tuple[Profile, ...]:
    profiles = {profile.name: profile for profile in PROFILES}
    for name, entry in given.items():
        at = f"profiles.{name}"
        if not (name.isascii() and name.isalnum() and name[0].isalpha()):
            raise OptionsError(BAD_NAME.format(name=name), field="profiles")
        cpu = _amount(entry.cpu, f"{at}.cpu", "5")
        memory = _amount(entry.memory, f"{at}.memory", "17Gi")
        for what, count in (("pods", entry.pods), ("replicas", entry.replicas)):
            if count < 1:
                raise OptionsError(BAD_COUNT, field=f"{at}.{what}")
        profiles[name] = Profile(name=name, cpu=cpu, memory=memory, pods=entry.pods, replicas=entry.replicas)
    return tuple(profiles.values())


def _amount(text: QuantityText, at: str, example: str) -> float:
    try:
        amount = Quantity.parse(text).approximate()
    except QuantityError as error:
        raise OptionsError(str(error), field=at) from None
    if not 0 < amount < math.inf:
        raise OptionsError(BAD_AMOUNT.format(example=example), field=at)
    return amount
