"""The ledger: what is promised to workloads but not yet observed on hosts.

Data flow: the caller reports capacity and use (``set_capacity``, ``observe``) and makes promises (``reserve``,
``earmark``) in a ``transaction``. After a crash, ``Ledger.rebuild_in_steps`` restores it from what the hub shows.

- A *holding* is what a workload has on a host: per resource the larger of its reservation and its observed use, so that
  a promise is not counted twice once it is observed.
- An *earmark* ties room to one beneficiary: room that its source will leave, or room that is free now.
- ``grantable`` is the only answer to how much is left.

A promise begins with ``reserve``, and ends with ``confirm``, once it is observed, or ``release``. Other promises begin
and end in the same way, but are no entries, for measured reasons: the debits of scores (``hosts.clusters.debits``)
and, without virtual machines, the pods that are about to be bound (``NodeFleet``).

``account`` has the arithmetic of one host as immutable values, ``ledger`` transactions and speculation, ``refusal`` the
errors, ``columns`` what is grantable as columns of a table. All amounts are integers in milli-units.
"""

from fairway.engine.ledger.account import Earmark, HostAccount
from fairway.engine.ledger.columns import LedgerColumns
from fairway.engine.ledger.ledger import Ledger, Speculation, Transaction
from fairway.engine.ledger.refusal import InsufficientCapacity, LedgerError, Shortage

__all__ = [
    "Earmark",
    "HostAccount",
    "InsufficientCapacity",
    "Ledger",
    "LedgerColumns",
    "LedgerError",
    "Shortage",
    "Speculation",
    "Transaction",
]
