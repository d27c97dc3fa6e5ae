"""Records as rows, as documents and as text."""

from collections.abc import Iterator
from typing import Any, Final

from fairway.cli.history.times import time_of
from fairway.cli.text import cell
from fairway.history.archive import Stored
from fairway.history.files import Gap
from fairway.history.record import PLACEMENT, HostReason, Record, Trace

COLUMNS: Final = {
    "at": "Time",
    "kind": "Kind",
    "name": "Name",
    "change": "Change",
    "margin": "Margin",
    "id": "ID",
    "cause": "Cause",
}
LESS: Final = ("kind", "margin")
NAMES_SHOWN: Final = 4


def row_of(stored: Stored) -> dict[str, object]:
    record = stored.record
    return {
        "at": time_of(record.at),
        "kind": record.kind,
        "name": record.key,
        "change": change_of(record),
        "margin": record.trace.margin,
        "id": record.id,
        "cause": _cause(record),
    }


def _cause(record: Record) -> str:
    cause = record.cause if record.kind == PLACEMENT else record.trace.message or record.cause
    return f"{cause} (not written: {record.error})" if record.error else cause


def change_of(record: Record) -> str:
    parts = [f"+{name}" for name in record.added] + [f"-{name}" for name in record.removed]
    shown, more = parts[:NAMES_SHOWN], len(parts) - NAMES_SHOWN
    return " ".join([*shown, *([f"and {more} more"] if more > 0 else [])]) or "pages only"


def document_of(stored: Stored) -> dict[str, Any]:
    record = stored.record
    return {
        "id": record.id,
        "kind": record.kind,
        "name": record.key,
        "at": time_of(record.at),
        "before": list(record.before),
        "after": list(record.after),
        "added": list(record.added),
        "removed": list(record.removed),
        "cause": record.cause,
        "error": record.error,
        "margin": record.trace.margin,
        "replayable": record.inputs is not None,
        "version": stored.version,
        "trace": _trace(record.trace),
    }


def _trace(trace: Trace) -> dict[str, Any]:
    return {
        "status": trace.status,
        "message": trace.message,
        "hosts": trace.hosts,
        "feasible": trace.feasible,
        "stages": [{"plugin": plugin, "left": left} for plugin, left in trace.stages],
        "added": [_host(host) for host in trace.added],
        "removed": [_host(host) for host in trace.removed],
        "last": None if trace.last is None else _host(trace.last),
        "next": None if trace.next is None else _host(trace.next),
    }


def _host(host: HostReason) -> dict[str, Any]:
    return {
        "host": host.host,
        "rank": host.rank or None,
        "total": host.total if host.rank else None,
        "rejectedBy": host.plugin,
        "reason": host.reason,
        "terms": [{"plugin": term.plugin, "score": term.score, "weight": term.weight} for term in host.terms],
    }


def gap_document(gap: Gap) -> dict[str, Any]:
    return {"since": time_of(gap.since), "until": time_of(gap.until), "lost": gap.lost, "why": gap.why}


def gap_line(gap: Gap) -> str:
    decisions = "decision was" if gap.lost == 1 else "decisions were"
    return f"gap: {gap.lost:,} {decisions} not recorded from {time_of(gap.since)} to {time_of(gap.until)}: {gap.why}"


def story_of(stored: Stored) -> Iterator[str]:
    """Yield what a record says of its decision, as text."""
    record, trace = stored.record, stored.record.trace
    yield f"{record.key}: decided at {time_of(record.at)}, record {record.id}, Fairway {stored.version or 'unknown'}"
    if record.cause:
        yield f"cause: {cell(record.cause)}"
    if trace.message:
        yield f"message: {cell(trace.message)}"
    if record.error:
        yield f"not written: {cell(record.error)}"
    yield f"change: {cell(change_of(record))}"
    for sign, hosts in (("+", trace.added), ("-", trace.removed)):
        for host in hosts:
            yield f"  {sign}{host.host}: {_why(host, trace.feasible)}"
    if trace.margin is not None and trace.last is not None and trace.next is not None:
        yield (
            f"margin: {trace.last.host} was {trace.margin:,} points ahead of {trace.next.host}"
            if trace.margin
            else f"margin: none; {trace.last.host} and {trace.next.host} had the same points, and the name decided"
        )


def _why(host: HostReason, feasible: int) -> str:
    if not host.rank:
        why = cell(host.reason) if host.reason else "rejected"
        return f"rejected by {host.plugin}: {why}" if host.plugin else why
    terms = ", ".join(
        f"{term.plugin} {term.score}" if term.weight == 1 else f"{term.plugin} {term.score} × {term.weight}"
        for term in host.terms
    )
    return f"rank {host.rank} of {feasible} with {host.total} points" + (f": {terms}" if terms else "")
