"""OpenTelemetry spans, if it is installed.

Fairway does not depend on OpenTelemetry: with ``fairway[otel]`` installed, or in a program that uses it, spans
go to the configured provider; otherwise ``span`` does nothing, at almost no cost.
"""

import importlib
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, cast

from fairway import __version__

log: Final = logging.getLogger(__name__)

API: Final = "opentelemetry.trace"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL: Final = "http/protobuf"
SERVICE: Final = "fairway"

NO_ENDPOINT: Final = f"traces are not exported: {ENDPOINT} is not set"
DISABLED: Final = "traces are not exported: disabled by OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER"
NOT_INSTALLED: Final = (
    "traces cannot be exported, though an endpoint is set: {missing} is not installed; "
    "pip install 'fairway[otel]'"
)
UNSUPPORTED_PROTOCOL: Final = (
    f"traces cannot be exported by {{given}}: only {PROTOCOL} is supported; unset {{variable}}"
)
EXISTING_PROVIDER: Final = "traces are sent to the provider that this process already configured"
EXPORTED: Final = "traces are exported to {endpoint}"

Value = str | bool | int | float


class Span(Protocol):
    def set_attribute(self, key: str, value: Any, /) -> None: ...


class Tracer(Protocol):
    """The used part of OpenTelemetry's tracer."""

    def start_as_current_span(
        self, name: str, *, attributes: Mapping[str, Value]
    ) -> AbstractContextManager[Span]:
        """Records an exception that leaves the block, and marks the span as failed."""


class _Nothing:
    """A span that records nothing."""

    __slots__ = ()

    def set_attribute(self, key: str, value: object, /) -> None: ...

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_NOTHING: Final = _Nothing()


def span(name: str, /, **attributes: object) -> AbstractContextManager[Span]:
    """Trace a block. An exception that leaves it is recorded; attributes that are None are omitted."""
    tracer = _current.tracer
    if tracer is None or (isinstance(tracer, _ApiTracer) and not tracer.has_provider):
        return _NOTHING
    return tracer.start_as_current_span(name, attributes=_attributes(attributes))


def _attributes(attributes: Mapping[str, object]) -> dict[str, Value]:
    return {
        key: value if isinstance(value, str | bool | int | float) else str(value)
        for key, value in attributes.items()
        if value is not None
    }


class _ApiTracer:
    """The tracer of the API."""

    __slots__ = ("_api", "_tracer")

    def __init__(self, api: Any) -> None:
        self._api = api
        self._tracer = cast("Tracer", api.get_tracer(SERVICE, __version__))

    @property
    def has_provider(self) -> bool:
        """Whether the program has configured a provider. Until then, the API's own spans do nothing either, but at some
        cost."""
        return not isinstance(self._api.get_tracer_provider(), self._api.ProxyTracerProvider)

    def start_as_current_span(
        self, name: str, *, attributes: Mapping[str, Value]
    ) -> AbstractContextManager[Span]:
        return self._tracer.start_as_current_span(name, attributes=attributes)


def _found() -> Tracer | None:
    """Return the tracer of the API, if installed; it passes spans to the provider as soon as there is one."""
    try:
        api = importlib.import_module(API)
    except ImportError:
        return None
    return _ApiTracer(api)


@dataclass(slots=True)
class _Current:
    tracer: Tracer | None


_current: Final = _Current(_found())


def use(tracer: Tracer | None) -> Tracer | None:
    """Set the tracer of later spans; None disables them. Returns the previous one."""
    before, _current.tracer = _current.tracer, tracer
    return before


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """``message`` describes the destination, or why there is none. ``close`` flushes; it blocks for some seconds."""

    on: bool
    message: str
    close: Callable[[], None] = lambda: None


def configure_from_environment(environment: Mapping[str, str] | None = None) -> Export:
    """Export spans by OTLP if OTEL_EXPORTER_OTLP_ENDPOINT is set, and log the result.

    All other variables of OpenTelemetry, such as OTEL_SERVICE_NAME or OTEL_TRACES_SAMPLER, apply.
    """
    export = _configured(os.environ if environment is None else environment)
    level = logging.INFO if export.on else logging.DEBUG if export.message in _QUIET else logging.WARNING
    log.log(level, export.message)
    return export


_QUIET: Final = (NO_ENDPOINT, DISABLED)


def _configured(environment: Mapping[str, str]) -> Export:
    endpoint = environment.get(TRACES_ENDPOINT) or environment.get(ENDPOINT)
    if not endpoint:
        return Export(on=False, message=NO_ENDPOINT)
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get(
        "OTEL_TRACES_EXPORTER", "otlp"
    ) in ("none",):
        return Export(on=False, message=DISABLED)
    for variable in PROTOCOLS:
        protocol = environment.get(variable) or PROTOCOL
        if protocol != PROTOCOL:
            return Export(on=False, message=UNSUPPORTED_PROTOCOL.format(given=protocol, variable=variable))
    try:
        api = importlib.import_module(API)
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        exporting = importlib.import_module("opentelemetry.sdk.trace.export")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError as error:
        return Export(on=False, message=NOT_INSTALLED.format(missing=error.name or "opentelemetry"))
    if not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        use(_found())
        return Export(on=True, message=EXISTING_PROVIDER)
    own = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": SERVICE}
    resource = resources.Resource.create({**own, "service.version": __version__})
    provider = sdk.TracerProvider(resource=resource)
    provider.add_span_processor(exporting.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    api.set_tracer_provider(provider)
    use(_found())
    return Export(on=True, message=EXPORTED.format(endpoint=_shown(endpoint)), close=provider.shutdown)


def _shown(endpoint: str) -> str:
    """Return the endpoint without its password."""
    scheme, separator, rest = endpoint.partition("://")
    if not separator:
        return endpoint
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
