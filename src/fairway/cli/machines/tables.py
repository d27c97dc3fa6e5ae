"""Rows and documents of `fairway machines`: nodes, machines and migrations."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.amount_display import display_amount, display_share
from fairway.engine.workload import ResourceList
from fairway.hosts.instant import SECOND, Micros
from fairway.workloads.machines.machine import VIRTUAL_MACHINE
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.migration_story import Story
from fairway.workloads.machines.report import MachineReport, NodeReport
from fairway.workloads.machines.size import ONE
from kubewire.api.meta import format_time

NODE_COLUMNS: Final = {
    "node": "Node",
    "resource": "Resource",
    "capacity": "Capacity",
    "reserved": "Reserved",
    "committed": "Committed",
    "earmarked": "Earmarked",
    "watermark": "Watermark",
    "pressure": "Pressure",
    "machines": "VMs",
    "moves": "Moves",
}
MACHINE_COLUMNS: Final = {
    "vm": "VM",
    "kind": "Kind",
    "node": "Node",
    "size": "Size",
    "permit": "Permit",
    "demand": "Demand",
    "denied": "Denied",
    "state": "State",
}
LESS_OF_NODES: Final = ("committed", "watermark", "machines", "earmarked", "moves", "capacity")
LESS_OF_MACHINES: Final = ("permit", "kind", "denied")
"""Columns that a narrow terminal leaves out first."""
RESOURCES: Final = ("cpu", "memory")
MOVES_TO: Final = "moves to {node} ({phase})"
WAITS_FOR: Final = "waits for {migrations}"
DENIED: Final = "denied"


def node_rows(reports: Iterable[NodeReport], resources: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each node and resource."""
    rows: list[dict[str, Any]] = []
    for report in reports:
        moves = [f"{report.leaving} out"] * bool(report.leaving) + [f"{report.arriving} in"] * bool(
            report.arriving
        )
        for resource in resources:
            share = report.share(resource)
            reserved = _shown(resource, report.reserved)
            rows.append(
                {
                    "node": report.node,
                    "resource": resource,
                    "capacity": None if report.capacity is None else _shown(resource, report.capacity),
                    "reserved": reserved if share is None else f"{reserved} ({display_share(share)})",
                    "committed": _shown(resource, report.committed),
                    "earmarked": _some(resource, report.earmarked),
                    "watermark": _some(resource, report.watermark),
                    "pressure": _some(resource, report.pressure),
                    "machines": report.machines,
                    "moves": ", ".join(moves),
                }
            )
    return rows


def machine_columns(reports: Iterable[MachineReport]) -> dict[str, str]:
    """Return the columns of machines: their kind only if not all are VirtualMachines."""
    return _columns(MACHINE_COLUMNS, (report.kind for report in reports))


def _columns(columns: Mapping[str, str], kinds: Iterable[str]) -> dict[str, str]:
    if all(kind == VIRTUAL_MACHINE for kind in kinds):
        return {key: title for key, title in columns.items() if key != "kind"}
    return dict(columns)


def machine_rows(reports: Iterable[MachineReport]) -> list[dict[str, Any]]:
    return [
        {
            "vm": f"{report.namespace}/{report.vm}",
            "kind": report.kind,
            "node": report.node,
            "size": _size(report.using),
            "permit": _size(report.permit) if report.permit else "",
            "demand": _size(report.demand) if report.demand else "",
            "denied": _size(report.denied) if report.denied else "",
            "state": _state(report),
        }
        for report in reports
    ]


def _state(report: MachineReport) -> str:
    if report.moving:
        return MOVES_TO.format(node=report.moving_to, phase=report.phase)
    if report.waits_for:
        return WAITS_FOR.format(migrations=", ".join(report.waits_for))
    return DENIED if report.denied else ""


def _size(size: ResourceList) -> str:
    """Format CPU and memory, such as ``1.5 / 6 GiB``."""
    return " / ".join(_shown(resource, size) for resource in RESOURCES)


def _shown(resource: str, size: ResourceList) -> str:
    return display_amount(resource, f"{size.get(resource, 0)}m")


def _some(resource: str, size: ResourceList) -> str | None:
    return _shown(resource, size) if size.get(resource) else None


def node_document(report: NodeReport) -> dict[str, Any]:
    return {
        "node": report.node,
        "capacity": None if report.capacity is None else quantities(report.capacity),
        "reserved": quantities(report.reserved),
        "committed": quantities(report.committed),
        "kept": quantities(report.kept),
        "promised": quantities(report.promised),
        "watermark": quantities(report.watermark),
        "denied": quantities(report.denied),
        "aboveWatermark": quantities(report.above),
        "machines": report.machines,
        "otherPods": report.pods,
        "leaving": report.leaving,
        "arriving": report.arriving,
    }


def machine_document(report: MachineReport) -> dict[str, Any]:
    return {
        "namespace": report.namespace,
        "vm": report.vm,
        "kind": report.kind,
        "pod": report.pod,
        "node": report.node,
        "size": quantities(report.using),
        "permit": quantities(report.permit),
        "demand": quantities(report.demand),
        "denied": quantities(report.denied),
        "migration": report.moving,
        "migratesTo": report.moving_to,
        "phase": str(report.phase),
        "waitsFor": list(report.waits_for),
    }


def quantities(size: ResourceList) -> dict[str, str]:
    """Return amounts in milli-units as quantities: CPUs in milli-CPUs, memory in bytes."""
    return {
        name: f"{amount}m" if name == "cpu" or amount % ONE else str(amount // ONE)
        for name, amount in sorted(size.items())
    }


STORY_COLUMNS: Final = {
    "migration": "Migration",
    "vm": "VM",
    "kind": "Kind",
    "source": "From",
    "target": "To",
    "phase": "Phase",
    "copied": "Copied",
    "took": "Took",
    "started": "Started",
    "room": "Makes room for",
}


def story_columns(stories: Iterable[Story]) -> dict[str, str]:
    """Return the columns of migrations: the kind of their machines only if not all are VirtualMachines."""
    return _columns(STORY_COLUMNS, (story.kind for story in stories))


def story_rows(stories: Iterable[Story], *, now: Micros) -> list[dict[str, Any]]:
    return [
        {
            "migration": story.id,
            "vm": f"{story.namespace}/{story.vm}",
            "kind": story.kind,
            "source": story.source,
            "target": story.target,
            "phase": str(story.phase),
            "copied": copied(story),
            "took": _seconds(story.steps[-1].seconds if story.ended else (now - story.started) / SECOND),
            "started": _clock(story.started),
            "room": ", ".join(story.beneficiaries) or f"({story.reason})",
        }
        for story in stories
    ]


def timeline(story: Story, *, now: Micros) -> list[str]:
    """Return the lines below a migration: one for each step, with how long it took."""
    lines: list[str] = []
    last = story.steps[-1]
    for step, following in zip(story.steps, [*story.steps[1:], None], strict=True):
        until = (now - story.started) / SECOND if following is None else following.seconds
        took = "" if step is last and story.ended else f"  {_seconds(max(0.0, until - step.seconds))}"
        at = _clock(story.started + round(step.seconds * SECOND))
        lines.append(f"{at}  {step.phase:<14}{took}".rstrip())
    if story.message:
        lines.append(story.message)
    return lines


def story_document(story: Story) -> Mapping[str, Any]:
    return {
        "migration": story.id,
        "namespace": story.namespace,
        "vm": story.vm,
        "kind": story.kind,
        "sourceNode": story.source,
        "targetNode": story.target,
        "reason": story.reason,
        "phase": str(story.phase),
        "started": format_time(_moment(story.started)),
        "steps": [{"phase": str(step.phase), "seconds": round(step.seconds, 3)} for step in story.steps],
        "beneficiaries": list(story.beneficiaries),
        "bytes": story.size,
        "bytesCopied": story.copied,
        "message": story.message,
    }


def copied(story: Story) -> str:
    """Return how much of the memory was copied; nothing if that is unknown, as of a cancelled migration."""
    done = story.copied
    if story.phase is Phase.CLEANED:
        done = story.size
    if story.size is None or done is None:
        return ""
    size = display_amount("memory", story.size)
    return size if done >= story.size else f"{display_amount('memory', done)} of {size}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _moment(at: Micros) -> datetime:
    return datetime.fromtimestamp(at / SECOND, UTC)


def _clock(at: Micros) -> str:
    return _moment(at).astimezone().strftime("%H:%M:%S")
