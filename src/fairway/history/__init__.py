"""The history of decisions: what changed, when, why, and everything needed to decide it again.

    controllers ──▶ recorder ──▶ files ──▶ archive ──▶ fairway history, why, replay
                      │ inputs, reasons, codec           │ replay: a fleet as of a record

``recorder`` takes down each decision that changes what the hub has, on the event loop, and writes it on a thread.
``inputs`` finds which objects that a cycle read are new since the last record; ``codec`` makes them bytes. ``files``
has the databases, with retention by size and age. ``archive`` reads all files of a folder, and skips damaged ones with
a warning. ``replay`` builds the fleet as of a record, and decides the placement again.

A *record* is one decision. A *change* is what is new of the inputs since the change before; a record names the last one
that its cycle read. A *gap* is a time in which decisions were not recorded.
"""

from fairway.controllers.runtime.decision_history import HOSTED_CLUSTER, MIGRATION, POD
from fairway.history.record import KINDS, PLACEMENT, Record, Trace

__all__ = ["HOSTED_CLUSTER", "KINDS", "MIGRATION", "PLACEMENT", "POD", "Record", "Trace"]
