"""What the ledger can grant, as columns of a table, so that filters and scores read it like any other column."""

from typing import Any

from fairway.engine.ledger.account import HostAccount
from fairway.engine.ledger.ledger import Ledger
from fairway.engine.workload import HostKey
from fairway.hosts.column import Key
from fairway.hosts.resources import LARGEST, earmarked, grantable
from fairway.hosts.table import Table


class LedgerColumns:
    """Writes the changed cells with every transaction: the next snapshot has what the last commit reserved.

    Filter and Reserve then decide by the same amounts, provided that a recreated host, which has another uid, is
    replaced in the table and in the ledger (``remove_host`` and ``set_capacity``) before the next cycle.
    """

    def __init__(self, ledger: Ledger, table: Table[Any]) -> None:
        self._ledger, self._table = ledger, table
        self._written: dict[str, frozenset[Key]] = {}
        ledger.follow(self._write)

    def _write(self, host: HostKey, _account: HostAccount | None) -> None:
        # By name, not the account that changed: the row belongs to the host that has the name now, and the change may
        # be that of the deleted host which had it before.
        account = self._ledger.account_named(host.name)
        amounts: dict[Key, int] = {}
        if account is not None:
            amounts = {grantable(resource): max(-LARGEST, left) for resource, left in account.free().items()}
            if account.earmarks:
                amounts |= {earmarked(resource): room for resource, room in account.kept_room().items()}
        written = self._written.get(host.name)
        if written is None or written != amounts.keys():
            removed = written - amounts.keys() if written else ()
            self._written[host.name] = frozenset(amounts)
            # Written as 0, not left alone: a resource that the host no longer has would stay grantable in the table.
            amounts |= dict.fromkeys(removed, 0)
        self._table.set_amounts(host.name, amounts)
