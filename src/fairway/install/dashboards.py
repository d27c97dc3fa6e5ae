"""Dashboards for Grafana: one for decisions and the controllers, one for hosted clusters, pods and virtual machines.

They read the metrics that Prometheus collects. Every panel shows one question that an operator asks, with its unit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

COLUMNS: Final = 3
WIDTH: Final = 24 // COLUMNS
HEIGHT: Final = 8
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_OF: Final = 'namespace=~"$namespace"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    meaning: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """PromQL and legend of each line."""
    kind: str = "timeseries"
    thresholds: tuple[float, ...] = field(default=())
    """The first value that is right, and the first that is too much."""


def quantile(share: float, metric: str, by: str = "le") -> str:
    return f"histogram_quantile({share}, sum by ({by}) (rate({metric}_bucket{{{_OF}}}[5m])))"


def per_minute(metric: str, by: str, selector: str = "") -> str:
    return f"60 * sum by ({by}) (rate({metric}{{{_OF}{selector}}}[5m]))"


DECISIONS: Final = (
    Panel(
        title="Reaction",
        meaning="Time from an observed change to the written decision.",
        unit="s",
        queries=(
            (quantile(0.5, "fairway_reaction_seconds"), "p50"),
            (quantile(0.99, "fairway_reaction_seconds"), "p99"),
        ),
    ),
    Panel(
        title="Changed decisions per minute",
        meaning="PlacementDecisions written, by what changed. Many updates without a cause are flapping.",
        unit="short",
        queries=((per_minute("fairway_decisions_changed_total", "change"), "{{change}}"),),
    ),
    Panel(
        title="Leader",
        meaning="Number of processes that hold each Lease: 1 is right.",
        unit="short",
        kind="stat",
        queries=((f"sum by (lease) (fairway_leader{{{_OF}}})", "{{lease}}"),),
        thresholds=(1, 2),
    ),
    Panel(
        title="Queues",
        meaning="Keys that wait for a worker. A queue that never gets empty needs more CPU or shards.",
        unit="short",
        queries=((f"max by (controller) (fairway_workqueue_depth{{{_OF}}})", "{{controller}}"),),
    ),
    Panel(
        title="Writes per minute",
        meaning="Writes to the hub, by controller.",
        unit="short",
        queries=((per_minute("fairway_writes_total", "controller"), "{{controller}}"),),
    ),
    Panel(
        title="Refused writes per minute",
        meaning="Writes that the hub refused, except conflicts, which are normal.",
        unit="short",
        queries=(
            (
                per_minute(
                    "fairway_write_errors_total",
                    "controller, resource, reason",
                    ',reason!~"Conflict|AlreadyExists|NotFound"',
                ),
                "{{controller}} {{resource}} {{reason}}",
            ),
        ),
    ),
    Panel(
        title="Retries per minute",
        meaning="Keys that failed and are tried again; the log names the objects.",
        unit="short",
        queries=((per_minute("fairway_workqueue_retries_total", "controller"), "{{controller}}"),),
    ),
    Panel(
        title="Age of what is known",
        meaning="Greatest age of the cache of each kind.",
        unit="s",
        queries=((f"max by (resource) (fairway_informer_lag_seconds{{{_OF}}})", "{{resource}}"),),
    ),
    Panel(
        title="Time to decide",
        meaning="CPU time of one decision: followed is incremental, scratch is over all clusters.",
        unit="s",
        queries=((quantile(0.99, "fairway_cycle_seconds", "le, path"), "p99 {{path}}"),),
    ),
    Panel(
        title="Scores",
        meaning="AddOnPlacementScores by state. Expired and silent ones no longer describe their cluster.",
        unit="short",
        queries=((f"max by (resource, state) (fairway_scores{{{_OF}}})", "{{resource}} {{state}}"),),
    ),
    Panel(
        title="Recovery",
        meaning="Clusters by recovery state.",
        unit="short",
        queries=((f"max by (state) (fairway_recovery_clusters{{{_OF}}})", "{{state}}"),),
    ),
    Panel(
        title="Plugins in quarantine",
        meaning="Third-party plugins that are not called because of repeated faults.",
        unit="short",
        queries=((f"max by (plugin) (fairway_plugin_quarantined{{{_OF}}})", "{{plugin}}"),),
    ),
)
WORKLOADS: Final = (
    Panel(
        title="Requests for hosted clusters",
        meaning="HostedClusterRequests by phase.",
        unit="short",
        queries=((f"max by (phase) (fairway_hosting_requests{{{_OF}}})", "{{phase}}"),),
    ),
    Panel(
        title="Hosting clusters",
        meaning="Hosting clusters by whether their load is published; those with unknown load get nothing.",
        unit="short",
        queries=((f"max by (state) (fairway_hosting_hosts{{{_OF}}})", "{{state}}"),),
    ),
    Panel(
        title="On unavailable hosts",
        meaning="Requests whose hosting cluster is unavailable or lost.",
        unit="short",
        queries=((f"max by (state) (fairway_hosting_requests_on_unavailable_hosts{{{_OF}}})", "{{state}}"),),
    ),
    Panel(
        title="Places given up per hour",
        meaning="Reserved places that were released, by reason.",
        unit="short",
        queries=((f"60 * {per_minute('fairway_hosting_releases_total', 'reason')}", "{{reason}}"),),
    ),
    Panel(
        title="Pods without a node",
        meaning="Pods that wait, by queue. Unschedulable ones wait for an event that may help.",
        unit="short",
        queries=((f"max by (queue) (fairway_pods_pending{{{_OF}}})", "{{queue}}"),),
    ),
    Panel(
        title="Attempts to schedule pods per minute",
        meaning="Attempts by result.",
        unit="short",
        queries=((per_minute("fairway_pods_schedule_attempts_total", "result"), "{{result}}"),),
    ),
    Panel(
        title="Permits",
        meaning="Time from a request of a virtual machine's agent to the reply.",
        unit="s",
        queries=(
            (quantile(0.5, "fairway_machines_permit_request_duration_seconds"), "p50"),
            (quantile(0.99, "fairway_machines_permit_request_duration_seconds"), "p99"),
        ),
    ),
    Panel(
        title="Machines that wait for room",
        meaning="Virtual machines with demand that is denied now.",
        unit="short",
        queries=((f"max(fairway_machines_denied{{{_OF}}})", "denied"),),
    ),
    Panel(
        title="Migrations",
        meaning="Migrations under way, by phase.",
        unit="short",
        queries=((f"max by (phase) (fairway_machines_migrations{{{_OF}}})", "{{phase}}"),),
    ),
)
DASHBOARDS: Final = {
    "fairway": ("Fairway", DECISIONS),
    "fairway-workloads": ("Fairway: workloads", WORKLOADS),
}
"""Title and panels by uid."""


def dashboard(uid: str) -> dict[str, Any]:
    """Return the JSON model of a dashboard, ready for Grafana's import."""
    title, panels = DASHBOARDS[uid]
    return {
        "uid": uid,
        "title": title,
        "tags": ["fairway"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "namespace",
                    "label": "Namespace",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": "label_values(fairway_build_info, namespace)",
                    "refresh": 2,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def dashboard_text(uid: str) -> str:
    """Return a dashboard as the file that Grafana imports."""
    return msgspec.json.format(msgspec.json.encode(dashboard(uid)), indent=1).decode() + "\n"


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": SOURCE,
        "gridPos": {
            "h": HEIGHT,
            "w": WIDTH,
            "x": number % COLUMNS * WIDTH,
            "y": number // COLUMNS * HEIGHT,
        },
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, **_thresholds(panel.thresholds)},
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def _thresholds(values: Sequence[float]) -> dict[str, Any]:
    return {"thresholds": {"mode": "absolute", "steps": list(_steps(values))}} if values else {}


def _steps(values: Sequence[float]) -> Iterator[dict[str, Any]]:
    colours = ("red", "green", "red")
    for value, colour in zip((None, *values), colours, strict=True):
        yield {"color": colour, "value": value}
