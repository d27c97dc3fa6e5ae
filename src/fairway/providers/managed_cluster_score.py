"""Publish raw values as ManagedClusterScores: one object per score, named ``{cluster}-{calculator}``.

Unlike an AddOnPlacementScore, it holds the value in its own unit, and when it was read. A value is rounded to an
integer, and one outside of int64 is not published. It has no validity: readers use ``lastUpdateTime``, which is the
time of the reading, not of the write.

The calculator is the score's name in lower case, as the API requires. An object of that name without our labels belongs
to another client and is not changed.
"""

import logging
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.resources import MANAGED_CLUSTER_SCORES
from fairway.api.score import ManagedClusterScore, ManagedClusterScoreCondition, managed_cluster_score_name
from fairway.providers.publication import Publication
from fairway.providers.sink import (
    ForeignObject,
    SinkError,
    StoredPublication,
    as_sink_errors,
    describe_owner,
    field_manager,
    is_owned_by,
    labels_of,
    selector_of,
)
from kubewire.api.meta import FALSE, TRUE, find_condition, format_time
from kubewire.client import AlreadyExists, Client, NotFound, Patch
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

CONDITION: Final = "ManagedClusterScoreUpdated"
"""Condition type, and its reason while its status is True."""
UPDATED: Final = "ManagedClusterScore updated successfully"
OUT_OF_RANGE: Final = "OutOfRange"
"""Condition reason of a value that is not an int64."""

CONDITIONS: Final = {
    ("ManagedClusterScore", CONDITION): {
        CONDITION: "The score is current.",
        OUT_OF_RANGE: "The value is not a 64-bit integer; the other reasons are those of the provider.",
    }
}

LONGEST_NAME: Final = 253
LEAST: Final = -(2**63)
GREATEST: Final = 2**63 - 1

NO_CALCULATOR: Final = (
    "score {name!r} cannot be a calculator of ManagedClusterScores: in lower case it is part of an object's name, "
    "so use letters, digits, '-' and '.', and begin and end with a letter or digit, also beside a '.'"
)
SAME_CALCULATOR: Final = "scores {one!r} and {other!r} are the same calculator {calculator!r}: rename one"
TOO_LONG: Final = (
    "ManagedClusterScore {name!r} would have a name of {length} characters; the limit is {longest}: "
    "shorten the name of score {score!r} by {excess}"
)
FOREIGN: Final = (
    "ManagedClusterScore {namespace}/{name} {whose}; not changed. Rename the score, delete the object, "
    "or take it over with --adopt"
)
NOT_WHOLE: Final = "{value:g} cannot be published: it does not fit into an int64"
SKIPPED: Final = "ManagedClusterScore %s/%s not created: %s"

_PART: Final = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_CALCULATOR: Final = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CalculatorError(ValueError):
    """A score that cannot be published as a ManagedClusterScore."""


class ManagedClusterScores:
    """Sink of one provider with the score ``names``. Raises CalculatorError."""

    def __init__(self, client: Client, *, provider: str, names: Iterable[str], adopt: bool = False) -> None:
        self.calculators = calculators(names)
        self._client, self._provider, self._adopt = client, provider, adopt
        self._manager = field_manager(provider)
        self._existing: dict[str, set[str]] = {}
        """Names of this provider's objects by cluster; listed once per cluster."""
        self._throttle = LogThrottle(log)

    async def find(self, cluster: str, /) -> StoredPublication | None:
        own = await as_sink_errors(self._list_own(cluster), cluster=cluster)
        return _stored_publication(own) if own else None

    async def write(
        self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
    ) -> StoredPublication:
        """Write all scores in sequence. If one fails, the earlier writes stay and are repeated in the next round."""
        del stored  #  the objects have no common version
        return await as_sink_errors(self._write_all(cluster, publication), cluster=cluster)

    async def remove(self, cluster: str, /) -> bool:
        return await as_sink_errors(self._remove_all(cluster), cluster=cluster)

    async def _list_own(self, cluster: str) -> list[ManagedClusterScore]:
        listing = await self._client.list(
            MANAGED_CLUSTER_SCORES, namespace=cluster, labels=selector_of(self._provider)
        )
        return list(listing.items)

    async def _write_all(self, cluster: str, publication: Publication) -> StoredPublication:
        names = {
            score: object_name(cluster=cluster, score=score, calculator=self.calculators[score])
            for score, _ in publication.scores
            if score in self.calculators
        }
        for score, name in names.items():
            await self._publish(cluster, name, publication, raw=publication.raw.get(score))
        if cluster not in self._existing:
            self._existing[cluster] = {own.metadata.name for own in await self._list_own(cluster)}
        for name in self._existing[cluster] - set(names.values()):
            await self._delete_own(cluster, name)
        self._existing[cluster] = set(names.values())
        return StoredPublication(publication=publication)

    async def _publish(self, cluster: str, name: str, publication: Publication, *, raw: float | None) -> None:
        value = None if raw is None else round_to_int64(raw)
        known = None
        if value is None:
            # No publishable value: the stored value and its time stay, and the condition gives the reason.
            known = await self._get(cluster, name)
            if known is None or known.value is None:
                if raw is not None:
                    self._throttle.log(
                        logging.WARNING, (cluster, name), SKIPPED, cluster, name, NOT_WHOLE.format(value=raw)
                    )
                return
            self._check_owner(known)
        status = status_of(publication, value=value, raw=raw, known=known)
        for made in (False, True):
            try:
                await self._apply(cluster, name, status)
            except NotFound:
                if made:
                    raise
                await self._create(cluster, name)
            else:
                return

    async def _create(self, cluster: str, name: str) -> None:
        """Create the object without its status, which the API ignores on create."""
        body = {"metadata": {"name": name, "labels": labels_of(self._provider)}}
        try:
            await self._client.create(
                MANAGED_CLUSTER_SCORES, body, namespace=cluster, field_manager=self._manager
            )
        except AlreadyExists:
            score = await self._get(cluster, name)
            if score is None:
                raise
            self._check_owner(score)

    async def _apply(self, cluster: str, name: str, status: Mapping[str, Any]) -> None:
        score = await self._client.get(MANAGED_CLUSTER_SCORES, name, namespace=cluster)
        if not self._is_ours(score):
            self._check_owner(score)
            labels = {"metadata": {"uid": score.metadata.uid, "labels": labels_of(self._provider)}}
            await self._patch(cluster, name, labels, kind=Patch.MERGE)
        metadata = {"name": name, "namespace": cluster, "uid": score.metadata.uid}
        body = {"metadata": metadata, "status": status}
        await self._patch(cluster, name, body, kind=Patch.APPLY, subresource="status", force=True)

    async def _patch(
        self,
        cluster: str,
        name: str,
        body: Mapping[str, Any],
        *,
        kind: Patch,
        subresource: str | None = None,
        force: bool = False,
    ) -> None:
        await self._client.patch(
            MANAGED_CLUSTER_SCORES,
            name,
            body,
            kind=kind,
            namespace=cluster,
            subresource=subresource,
            field_manager=self._manager,
            force=force,
        )

    async def _get(self, cluster: str, name: str) -> ManagedClusterScore | None:
        try:
            return await self._client.get(MANAGED_CLUSTER_SCORES, name, namespace=cluster)
        except NotFound:
            return None

    def _is_ours(self, score: ManagedClusterScore) -> bool:
        return is_owned_by(self._provider, score.metadata.labels)

    def _check_owner(self, score: ManagedClusterScore) -> None:
        """Raises ForeignObject, unless the object is ours or ``--adopt`` was given."""
        if self._is_ours(score) or self._adopt:
            return
        meta = score.metadata
        raise ForeignObject(
            FOREIGN.format(namespace=meta.namespace, name=meta.name, whose=describe_owner(meta.labels))
        )

    async def _remove_all(self, cluster: str) -> bool:
        scores = await self._list_own(cluster)
        for score in scores:
            await self._delete_own(cluster, score.metadata.name)
        self._existing.pop(cluster, None)
        return bool(scores)

    async def _delete_own(self, cluster: str, name: str) -> None:
        score = await self._get(cluster, name)
        if score is None or not self._is_ours(score):
            return
        try:
            await self._client.delete(MANAGED_CLUSTER_SCORES, name, namespace=cluster, uid=score.metadata.uid)
        except NotFound:
            return


def calculators(names: Iterable[str]) -> dict[str, str]:
    """Map score names to calculators. Raises CalculatorError."""
    calculators: dict[str, str] = {}
    scores: dict[str, str] = {}
    for name in names:
        calculator = name.lower()
        if not _CALCULATOR.fullmatch(calculator):
            raise CalculatorError(NO_CALCULATOR.format(name=name))
        other = scores.setdefault(calculator, name)
        if other != name:
            raise CalculatorError(SAME_CALCULATOR.format(one=other, other=name, calculator=calculator))
        calculators[name] = calculator
    return calculators


def object_name(*, cluster: str, score: str, calculator: str) -> str:
    """Raises SinkError."""
    name = managed_cluster_score_name(cluster=cluster, calculator=calculator)
    if len(name) > LONGEST_NAME:
        message = TOO_LONG.format(
            name=name, length=len(name), longest=LONGEST_NAME, score=score, excess=len(name) - LONGEST_NAME
        )
        raise SinkError(message, reason="NameTooLong")
    return name


def round_to_int64(value: float) -> int | None:
    """Round half to even; None if the value does not fit into an int64."""
    if not math.isfinite(value):
        return None
    nearest = round(value)
    return nearest if LEAST <= nearest <= GREATEST else None


def status_of(
    publication: Publication, *, value: int | None, raw: float | None, known: ManagedClusterScore | None
) -> dict[str, Any]:
    """Status to apply. Without ``value``, the value and update time of ``known`` stay."""
    ok, reason, message = publication.ok, publication.reason, publication.message
    updated = publication.read_at or publication.changed_at
    reported = None if known is None else _condition(known)
    if value is None and known is not None:
        value = known.value
        updated = (None if reported is None else reported.lastUpdateTime) or updated
        if raw is not None:
            ok, reason, message = False, OUT_OF_RANGE, NOT_WHOLE.format(value=raw)
    if ok:
        reason, message = CONDITION, UPDATED
    assert value is not None
    return {
        "conditions": [
            {
                "type": CONDITION,
                "status": TRUE if ok else FALSE,
                "reason": reason,
                "message": message,
                "lastTransitionTime": format_time(publication.changed_at),
                "lastUpdateTime": format_time(updated),
            }
        ],
        "score": value,
    }


def _condition(score: ManagedClusterScore) -> ManagedClusterScoreCondition | None:
    condition = find_condition(score.status.conditions, CONDITION)
    return condition if isinstance(condition, ManagedClusterScoreCondition) else None


def _stored_publication(scores: Iterable[ManagedClusterScore]) -> StoredPublication:
    """Without scores, which cannot be computed from raw values; so the first round writes them again."""
    conditions = [condition for score in scores if (condition := _condition(score)) is not None]
    first = conditions[0] if conditions else None
    publication = Publication(
        scores=(),
        valid_until=None,
        ok=first is not None and first.status == TRUE,
        reason="" if first is None else first.reason,
        message="" if first is None else first.message,
        changed_at=(None if first is None else first.lastTransitionTime) or _LONG_AGO,
    )
    return StoredPublication(publication=publication)
