"""Nodes and pods as an API server sends them, and a full recount of free resources."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fairway.api.pod import Pod
from fairway.api.pod_requests import amounts_of, effective_requests
from fairway.providers.usage.accounting import Basis, Shape, Totals
from fairway.providers.usage.objects import NodeRoom, PodUse

Document = dict[str, Any]
Taint = tuple[str, str, str]
"""Key, value, effect."""

GIB = 2**30
BIG: Document = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def node(
    name: str,
    allocatable: Mapping[str, Any] = BIG,
    *,
    uid: str = "",
    ready: bool = True,
    cordoned: bool = False,
    taints: Iterable[Taint] = (),
    labels: Mapping[str, str] | None = None,
) -> Document:
    return {
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "labels": dict(labels or {})},
        "spec": {
            "unschedulable": cordoned,
            "taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in taints],
        },
        "status": {
            "capacity": dict(allocatable),
            "allocatable": dict(allocatable),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pod(
    name: str,
    node: str = "",
    requests: Mapping[str, Any] | None = None,
    *,
    namespace: str = "default",
    uid: str = "",
    phase: str = "Running",
    terminating: bool = False,
    gated: bool = False,
    init: Mapping[str, Any] | None = None,
) -> Document:
    meta = {"name": name, "namespace": namespace, "uid": uid or f"uid-{namespace}-{name}"}
    if terminating:
        meta["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    spec: Document = {
        "containers": [{"name": "app", "image": "x", "resources": {"requests": dict(requests or {})}}]
    }
    if init is not None:
        spec["initContainers"] = [{"name": "init", "image": "x", "resources": {"requests": dict(init)}}]
    if node:
        spec["nodeName"] = node
    if gated:
        spec["schedulingGates"] = [{"name": "not-yet"}]
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def as_node(document: Document) -> NodeRoom:
    return msgspec.convert(document, NodeRoom)


def as_pod(document: Document) -> PodUse:
    return msgspec.convert(document, PodUse)


def shape(name: str, requests: Mapping[str, Any]) -> Shape:
    return Shape(name=name, vector=tuple(sorted({**amounts_of(requests), "pods": 1}.items())))


def recount(
    nodes: Iterable[Document],
    pods: Iterable[Document],
    *,
    shapes: tuple[Shape, ...] = (),
    used: Mapping[str, Mapping[str, int]] | None = None,
    basis: Basis = "both",
    terminating: bool = True,
    tainted: bool = False,
    not_ready: bool = False,
    floor: bool = True,
) -> Totals:
    """From the documents alone, in one pass over every pod for every node."""
    nodes, pods = list(nodes), list(pods)
    live = [pod for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    totals: dict[str, int] = {}
    largest: dict[str, int] = {}
    whole: dict[str, int] = {}
    slots = dict.fromkeys([shape.name for shape in shapes], 0)
    for node in nodes:
        ready = node["status"]["conditions"][0]["status"] == "True"
        if node["spec"]["unschedulable"] or not (ready or not_ready):
            continue
        taints = {taint["key"] for taint in node["spec"]["taints"] if taint["effect"] != "PreferNoSchedule"}
        if tainted:
            taints = set()
        here = [pod for pod in live if pod["spec"].get("nodeName") == node["metadata"]["name"]]
        if not terminating:
            here = [pod for pod in here if "deletionTimestamp" not in pod["metadata"]]
        asked = [{**effective_requests(msgspec.convert(pod, Pod)), "pods": 1} for pod in here]
        free = {}
        for name, amount in amounts_of(node["status"]["allocatable"]).items():
            requested = sum(amounts.get(name, 0) for amounts in asked)
            real = (used or {}).get(node["metadata"]["name"], {}).get(name)
            taken = {"requests": requested, "usage": requested if real is None else real}.get(
                basis, max(requested, real or 0)
            )
            free[name] = max(amount - taken, 0) if floor else amount - taken
        for wanted in shapes:
            if taints <= {name for name, _ in wanted.vector}:
                fit = min(free.get(name, 0) // amount for name, amount in wanted.vector)
                slots[wanted.name] += max(fit, 0)
        for name, amount in free.items():
            if not taints or taints == {name}:
                totals[name] = totals.get(name, 0) + amount
                largest[name] = max(largest.get(name, amount), amount)
                whole[name] = whole.get(name, 0) + amounts_of(node["status"]["allocatable"])[name]
    waiting = [
        pod
        for pod in live
        if not pod["spec"].get("nodeName")
        and not pod["spec"].get("schedulingGates")
        and "deletionTimestamp" not in pod["metadata"]
    ]
    pending: dict[str, int] = {}
    for pod in waiting:
        for name, amount in effective_requests(msgspec.convert(pod, Pod)).items():
            pending[name] = pending.get(name, 0) + amount
    return Totals(
        free=totals,
        largest=largest,
        slots=slots,
        known=frozenset(
            name
            for node in nodes
            for name, amount in amounts_of(node["status"]["allocatable"]).items()
            if amount
        ),
        pending={name: amount for name, amount in pending.items() if amount},
        waiting=len(waiting),
        whole={name: amount for name, amount in whole.items() if amount},
    )
