"""Spans with and without OpenTelemetry."""

import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import ModuleType, TracebackType
from typing import Any

import pytest

from fairway.observe import traces
from fairway.observe.traces import ENDPOINT, Span, Value, configure_from_environment, span


class Recorded:
    """A minimal span."""

    def __init__(self, name: str, attributes: Mapping[str, Value]) -> None:
        self.name = name
        self.attributes: dict[str, object] = dict(attributes)
        self.error: BaseException | None = None
        self.ended = False

    def set_attribute(self, key: str, value: object, /) -> None:
        self.attributes[key] = value

    def __enter__(self) -> "Recorded":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.error, self.ended = error, True


class Small:
    def __init__(self) -> None:
        self.spans: list[Recorded] = []

    def start_as_current_span(
        self, name: str, *, attributes: Mapping[str, Value]
    ) -> AbstractContextManager[Span]:
        self.spans.append(Recorded(name, attributes))
        return self.spans[-1]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = traces.use(None)
    yield
    traces.use(before)


def test_span_without_tracer_does_nothing() -> None:
    with span("cycle", placement="p1") as nothing:
        nothing.set_attribute("clusters", 3)
    assert span("cycle") is span("write")


def test_span_without_tracer_propagates_errors() -> None:
    with pytest.raises(ValueError, match="boom"), span("cycle"):
        raise ValueError("boom")


def test_span_has_name_and_attributes() -> None:
    small = Small()
    traces.use(small)
    with span(
        "cycle", placement="ns1/p1", clusters=3, share=0.5, followed=True, key=("ns1", "p1"), no=None
    ) as active:
        active.set_attribute("selected", 2)
    (finished,) = small.spans
    assert finished.name == "cycle"
    assert finished.attributes == {
        "placement": "ns1/p1",
        "clusters": 3,
        "share": 0.5,
        "followed": True,
        "key": "('ns1', 'p1')",
        "selected": 2,
    }
    assert finished.ended


def test_span_attribute_may_be_called_name() -> None:
    small = Small()
    traces.use(small)
    with span("cycle", name="p1"):
        pass
    assert small.spans[0].attributes == {"name": "p1"}


def test_span_records_and_propagates_error() -> None:
    small = Small()
    traces.use(small)
    with pytest.raises(ValueError, match="boom"), span("cycle"):
        raise ValueError("boom")
    assert isinstance(small.spans[0].error, ValueError)


def test_use_returns_the_previous_tracer() -> None:
    small = Small()
    assert traces.use(small) is None
    assert traces.use(None) is small


def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide an installed OpenTelemetry."""
    for name in [module for module in sys.modules if module.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    nothing: Any = None  # makes an import fail
    monkeypatch.setitem(sys.modules, "opentelemetry", nothing)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [
        (record.levelno, record.getMessage())
        for record in caplog.records
        if record.name == "fairway.observe.traces"
    ]


def test_without_endpoint_traces_are_not_exported(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    export = configure_from_environment({})
    assert (export.on, export.message) == (False, traces.NO_ENDPOINT)
    assert logged(caplog) == [(logging.DEBUG, traces.NO_ENDPOINT)]
    export.close()


@pytest.mark.parametrize("variables", [{"OTEL_SDK_DISABLED": "True"}, {"OTEL_TRACES_EXPORTER": "none"}])
def test_disabled_sdk_or_exporter_exports_no_traces(variables: dict[str, str]) -> None:
    export = configure_from_environment({ENDPOINT: "http://collector:4318", **variables})
    assert (export.on, export.message) == (False, traces.DISABLED)


def test_missing_otel_package_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    absent(monkeypatch)
    export = configure_from_environment({ENDPOINT: "http://collector:4318"})
    assert not export.on
    assert export.message.startswith(traces.NOT_INSTALLED.partition("{missing}")[0])
    assert export.message.endswith("pip install 'fairway[otel]'")
    assert logged(caplog) == [(logging.WARNING, export.message)]


def test_unsupported_otlp_protocol_is_named() -> None:
    export = configure_from_environment(
        {ENDPOINT: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    )
    assert not export.on
    assert export.message == traces.UNSUPPORTED_PROTOCOL.format(
        given="grpc", variable="OTEL_EXPORTER_OTLP_PROTOCOL"
    )


def module(monkeypatch: pytest.MonkeyPatch, name: str, **content: object) -> None:
    made = ModuleType(name)
    for key, value in content.items():
        setattr(made, key, value)
    monkeypatch.setitem(sys.modules, name, made)


class Proxy:
    """The provider before one is configured."""


class Provider:
    def __init__(self, *, resource: Mapping[str, str]) -> None:
        self.resource = resource
        self.processors: list[object] = []
        self.ended = False

    def add_span_processor(self, processor: object) -> None:
        self.processors.append(processor)

    def shutdown(self) -> None:
        self.ended = True


class Resource:
    @staticmethod
    def create(attributes: Mapping[str, str]) -> Mapping[str, str]:
        return attributes


class Installed:
    """A minimal OpenTelemetry."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.provider: object = Proxy()
        self.tracer = Small()
        for package in (
            "opentelemetry",
            "opentelemetry.sdk",
            "opentelemetry.exporter",
            "opentelemetry.exporter.otlp",
            "opentelemetry.exporter.otlp.proto",
            "opentelemetry.exporter.otlp.proto.http",
        ):
            module(monkeypatch, package, __path__=[])
        module(
            monkeypatch,
            "opentelemetry.trace",
            ProxyTracerProvider=Proxy,
            get_tracer=self.get,
            get_tracer_provider=lambda: self.provider,
            set_tracer_provider=self.set,
        )
        module(monkeypatch, "opentelemetry.sdk.trace", TracerProvider=Provider)
        module(monkeypatch, "opentelemetry.sdk.trace.export", BatchSpanProcessor=lambda exporter: exporter)
        module(monkeypatch, "opentelemetry.sdk.resources", Resource=Resource)
        module(
            monkeypatch,
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
            OTLPSpanExporter=lambda: "exporter",
        )

    def get(self, name: str, version: str) -> Small:
        return self.tracer

    def set(self, provider: object) -> None:
        self.provider = provider


def test_endpoint_sets_up_an_exporter(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    installed = Installed(monkeypatch)
    export = configure_from_environment({ENDPOINT: "https://me:secret@collector:4318/x"})
    assert export.on
    assert logged(caplog) == [(logging.INFO, "traces are exported to https://collector:4318/x")]
    provider = installed.provider
    assert isinstance(provider, Provider)
    assert provider.resource["service.name"] == "fairway"
    assert provider.processors == ["exporter"]
    with span("cycle"):
        pass
    assert [span.name for span in installed.tracer.spans] == ["cycle"]
    export.close()
    assert provider.ended


def test_otel_service_name_overrides_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = Installed(monkeypatch)
    configure_from_environment({ENDPOINT: "http://collector:4318", "OTEL_SERVICE_NAME": "other"})
    assert isinstance(installed.provider, Provider)
    assert "service.name" not in installed.provider.resource


def test_existing_tracer_provider_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = Installed(monkeypatch)
    installed.provider = theirs = Provider(resource={})
    export = configure_from_environment({ENDPOINT: "http://collector:4318"})
    assert (export.on, export.message) == (True, traces.EXISTING_PROVIDER)
    assert installed.provider is theirs
    export.close()
    assert not theirs.ended


# With the real OpenTelemetry, if installed


class Collector:
    """Receives exported spans."""

    def __init__(self) -> None:
        received: list[tuple[str, bytes]] = []
        self.received = received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  # the base class's

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self) -> "Collector":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def test_spans_are_exported_to_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs fairway[otel]")
    messages: Any = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    with Collector() as collector:
        environment = {
            ENDPOINT: f"http://127.0.0.1:{collector.server.server_port}",
            # In milliseconds and seconds: export once at the end, also on a slow machine.
            "OTEL_BSP_SCHEDULE_DELAY": "3600000",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "120",
        }
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        export = configure_from_environment()
        assert export.on
        with span("outer", placement="ns1/p1"), pytest.raises(ValueError, match="boom"), span("inner"):
            raise ValueError("boom")
        export.close()
    ((path, body),) = collector.received
    assert path == "/v1/traces"
    request = messages.ExportTraceServiceRequest.FromString(body)
    (resource,) = request.resource_spans
    assert {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}[
        "service.name"
    ] == "fairway"
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    assert spans["inner"].parent_span_id == spans["outer"].span_id
    assert [event.name for event in spans["inner"].events] == ["exception"]
    assert spans["inner"].status.code == 2
    assert {attribute.key: attribute.value.string_value for attribute in spans["outer"].attributes} == {
        "placement": "ns1/p1"
    }
