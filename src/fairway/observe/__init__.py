"""Metrics, logs and traces.

``meters`` and ``provider_meters`` define the Prometheus metrics of controllers and providers, ``logs`` configures
text and JSON logs, ``traces`` exports OpenTelemetry spans if the extra ``otel`` is installed. Every package may
import this one; it imports no other package of Fairway.
"""

__all__ = ["logs", "meters", "provider_meters", "traces"]
