"""Evictions: deletions of pods that the pod's disruption budget must allow."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kubehub import status
from kubehub.json_decoder import decode_object as _decode
from kubehub.options import Write, parse_deletion
from kubehub.resource import Document
from kubehub.selectors import matches_selector
from kubehub.status import Refusal
from kubehub.storage.store import Store
from kubehub.user import User
from kubehub.write_request import WriteRequest
from kubehub.writing.preconditions import check_deletion
from kubehub.writing.writer import Writer
from kubewire.api.selector import SelectorError

BUDGETS: Final = "poddisruptionbudgets.policy"

REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
NOT_PROCESSED: Final = "The disruption budget {name} is still being processed by the server."
TOO_FEW: Final = "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
NOT_ALLOWED: Final = "The disruption budget {name} does not allow evicting pods currently"
NEGATIVE: Final = "pdb disruptions allowed is negative"
UNCONFIRMED: Final = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
MULTIPLE_BUDGETS: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)

_RETRY_SECONDS: Final = 10
_UNCONFIRMED_LIMIT: Final = 2000
_UNGUARDED: Final = ("Succeeded", "Failed", "Pending")


class Evictions:
    def __init__(self, *, store: Store, writer: Writer) -> None:
        self._store, self._writer = store, writer

    async def evict(self, namespace: str, name: str, eviction: Document, request: WriteRequest) -> None:
        if (eviction.get("metadata") or {}).get("name") != name:
            raise status.bad_request("name in URL does not match name in Eviction object")
        resource = self._writer.resource("pods")
        query = {"dryRun": "All"} if request.options.dry_run else {}
        deletion = parse_deletion(query, eviction.get("deleteOptions"))
        item = self._store.head(("pods", namespace, name))
        if item is None:
            raise status.not_found("", "pods", name)
        request.run_admission(eviction, None)
        pod = _decode(item.raw)
        if _needs_budget(pod):
            await self._take_disruption(pod, request.user, dry_run=deletion.dry_run)
        if not deletion.dry_run:
            marking = WriteRequest(user=request.user, options=request.options, subresource="status")

            def mark(current: Document) -> None:
                check_deletion(resource, current["metadata"], deletion)
                self._mark(current)

            marked = await self._writer.change(resource, namespace, name, mark, marking)
            if deletion.revision is not None:
                deletion = replace(deletion, revision=_decode(marked.raw)["metadata"]["resourceVersion"])
        await self._writer.delete(resource, namespace, name, deletion, user=request.user)

    async def _take_disruption(self, pod: Document, user: User, *, dry_run: bool) -> None:
        """Take one disruption from the budget. Raises a 429 if the pod needs one and none is left."""
        budgets = list(self._matching_budgets(pod))
        if len(budgets) > 1:
            raise Refusal(code=500, reason="", message=MULTIPLE_BUDGETS)
        if not budgets or _is_spare(pod, budgets[0]):
            return

        def take(budget: Document) -> None:
            _check_budget(budget)
            state = budget["status"]
            state["disruptionsAllowed"] -= 1
            state.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = self._writer.now()

        about = budgets[0]["metadata"]
        options = Write(manager="kube-apiserver", dry_run=dry_run)
        request = WriteRequest(user=user, options=options, subresource="status")
        await self._writer.change(
            self._writer.resource(BUDGETS), about["namespace"], about["name"], take, request
        )

    def _matching_budgets(self, pod: Document) -> Iterator[Document]:
        metadata = pod["metadata"]
        for item in self._store.items(BUDGETS, namespace=metadata["namespace"]).items:
            budget = _decode(item.raw)
            selector = (budget.get("spec") or {}).get("selector")
            try:
                if matches_selector(selector, metadata.get("labels") or {}):
                    yield budget
            except SelectorError:
                continue  # an invalid selector selects nothing

    def _mark(self, pod: Document) -> None:
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [condition for condition in conditions if condition.get("type") != "DisruptionTarget"]
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": None,
                "lastTransitionTime": self._writer.now(),
            }
        )


def _needs_budget(pod: Document) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase not in _UNGUARDED and not pod["metadata"].get("deletionTimestamp")


def _is_spare(pod: Document, budget: Document) -> bool:
    """Return whether a pod that isn't ready can be evicted without a disruption, because enough others are healthy."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
    ):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    state = budget.get("status") or {}
    desired = state.get("desiredHealthy", 0)
    return bool(0 < desired <= state.get("currentHealthy", 0))


def _check_budget(budget: Document) -> None:
    name, state = budget["metadata"]["name"], budget.setdefault("status", {})
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _disruption_refusal(NOT_PROCESSED.format(name=name), retry_after=_RETRY_SECONDS)
    allowed = state.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise status.forbidden("policy", "poddisruptionbudget", name, NEGATIVE)
    if len(state.get("disruptedPods") or ()) > _UNCONFIRMED_LIMIT:
        raise status.forbidden("policy", "poddisruptionbudget", name, UNCONFIRMED)
    if allowed == 0:
        raise _disruption_refusal(_blocked_message(name, state), retry_after=0)


def _blocked_message(name: str, state: Document) -> str:
    message = NOT_ALLOWED.format(name=name)
    conditions = state.get("conditions") or ()
    stopped = next(
        (
            condition
            for condition in conditions
            if condition.get("type") == "DisruptionAllowed"
            and condition.get("status") == "False"
            and condition.get("message")
        ),
        None,
    )
    if stopped is not None and stopped.get("reason") == "SyncFailed":
        return f"{message} because it failed sync: {stopped['message']}"
    desired, current = state.get("desiredHealthy", 0), state.get("currentHealthy", 0)
    if current <= desired:
        return TOO_FEW.format(name=name, desired=desired, current=current)
    if stopped is not None:
        return f"{message} ({stopped.get('reason', '')}): {stopped['message']}"
    return message


def _disruption_refusal(cause: str, *, retry_after: int) -> Refusal:
    refusal = status.too_many_requests(REFUSED, retry_after=retry_after)
    refusal.details = {
        **(refusal.details or {}),
        "causes": [{"reason": "DisruptionBudget", "message": cause}],
    }
    return refusal
