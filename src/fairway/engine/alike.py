# mypy: disable-error-code="type-abstract"
"""Cycles of workloads that are alike: each continues from the last cycle of another one.

A burst of equal pods differs in names only. If all plugins of a profile declare what their results depend on of a
workload (``Signer``), workloads with equal signatures share a memo, and a cycle evaluates only the hosts that changed
since the last one. The outcome equals that of a full cycle.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

from fairway.engine import cycle
from fairway.engine.forms import find_form
from fairway.engine.memo import Memo
from fairway.engine.memory import follow_memo, make_memo
from fairway.engine.outcome import Outcome
from fairway.engine.points import CycleWorkload, Signer
from fairway.engine.profile import Profile
from fairway.hosts.instant import Micros
from fairway.hosts.snapshot import Snapshot

MOST_SIGNATURES: Final = 64
"""Maximum number of memos, and of signatures that were seen once."""


MOST_AVOIDED: Final = 64
"""Maximum number of cycles without a memo after one that could not be followed."""


class AlikeMemory:
    """All snapshots must be of the same fleet."""

    def __init__(self) -> None:
        self._memos: OrderedDict[Hashable, Memo] = OrderedDict()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        """A memo is only made for the second workload with a signature: most are never needed."""
        self._avoided: OrderedDict[Hashable, list[int]] = OrderedDict()
        """Signatures whose last memo was of no use: the number of cycles without one, and how many are left."""
        self._signers: dict[int, tuple[Profile, tuple[Signer, ...] | None]] = {}
        self.followed = 0
        """Number of incremental cycles."""

    def run(
        self, snapshot: Snapshot[Any], workload: CycleWorkload, profile: Profile, *, now: Micros
    ) -> Outcome:
        """Return the same as ``cycle.run``, faster."""
        signature = self._signature(workload, profile)
        if signature is None:
            return cycle.run(snapshot, workload, profile, now=now)
        memo = self._memos.pop(signature, None)  # a cycle that raises leaves none behind
        if memo is not None:
            outcome = follow_memo(memo, snapshot, workload, now=now)
            if outcome is not None:
                self.followed += 1
                self._memos[signature] = memo
                self._avoided.pop(signature, None)
                return outcome
        outcome = cycle.run(snapshot, workload, profile, now=now)
        if memo is None and signature not in self._seen:
            _keep(self._seen, signature, None)
        elif not self._avoids(signature, useless=memo is not None and not memo.followed):
            memo = make_memo(outcome)
            if memo is not None:
                _keep(self._memos, signature, memo)
        return outcome

    def _avoids(self, signature: Hashable, *, useless: bool) -> bool:
        """Return whether to make no memo now: where each workload changes the results of the next one, memos only
        cost time."""
        if useless:
            last = self._avoided.get(signature)
            # Doubled, and never given up: pods whose spread constraints interact today may be followed by a burst
            # that does not.
            cycles = 1 if last is None else min(2 * last[0], MOST_AVOIDED)
            _keep(self._avoided, signature, [cycles, cycles])
        avoided = self._avoided.get(signature)
        if avoided is None or not avoided[1]:
            return False
        avoided[1] -= 1
        return True

    def _signature(self, workload: CycleWorkload, profile: Profile) -> Hashable | None:
        _, signers = self._signers.get(id(profile)) or self._find_signers(profile)
        if signers is None or workload.wanted is None:
            return None
        signatures = [signer.signature(workload) for signer in signers]
        # A plugin that reads what differs between workloads returns None as its signature.
        return None if None in signatures else (id(profile), workload.wanted, *signatures)

    def _find_signers(self, profile: Profile) -> tuple[Profile, tuple[Signer, ...] | None]:
        calls: tuple[Any, ...] = (*profile.pre_filters, *profile.filters, *profile.scores)
        plugins = {id(call.plugin): call.plugin for call in calls}.values()
        signers_or_none = [find_form(plugin, Signer) for plugin in plugins]
        signers = tuple(signer for signer in signers_or_none if signer is not None)
        # Prioritize and Choose plugins may treat workloads differently, and have no signature.
        by_rank = profile.prioritizer is None and all(chooser.by_rank for chooser in profile.choosers)
        # The profile is kept, so that its id is not used again.
        entry = (profile, signers if by_rank and len(signers) == len(signers_or_none) else None)
        self._signers[id(profile)] = entry
        return entry


def _keep(kept: OrderedDict[Hashable, Any], key: Hashable, value: Any) -> None:
    kept[key] = value
    if len(kept) > MOST_SIGNATURES:
        kept.popitem(last=False)
