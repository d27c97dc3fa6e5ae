"""A kopf operator: a harbour that manages boats. ``kopf run`` runs it, no test imports it.

All it does shows on the hub: in the status of boats, in config maps, in events.
"""

from typing import Any

import kopf
from kubernetes import client, config

BOATS = ("clients.suite.fairway.dev", "v1", "boats")
TICKS = 3


@kopf.on.startup()
def begin(settings: kopf.OperatorSettings, **_: Any) -> None:
    load: Any = config.load_kube_config
    load()
    settings.persistence.finalizer = "suite.fairway.dev/harbour"
    settings.posting.enabled = True
    settings.persistence.consistency_timeout = 120  # a slow machine must not make it act on what is old


@kopf.on.create(*BOATS)
def launch(body: kopf.Body, name: str, namespace: str | None, **_: Any) -> dict[str, str]:
    """Create a config map owned by the boat; the result is stored in the status."""
    papers = {"metadata": {"name": f"papers-of-{name}"}, "data": {"port": body["spec"]["port"]}}
    kopf.adopt(papers, owner=body)
    core: Any = client.CoreV1Api()
    core.create_namespaced_config_map(namespace, papers)
    kopf.event(body, type="Normal", reason="Launched", message="Fair winds!")
    return {"papers": f"papers-of-{name}"}


@kopf.on.create(*BOATS)
async def board(spec: kopf.Spec, retry: int, patch: kopf.Patch, **_: Any) -> None:
    """Fail at the first two attempts."""
    if retry < 2:
        raise kopf.TemporaryError("the crew is late", delay=0.1)
    patch.status["aboard"] = spec["crew"]
    patch.status["attempts"] = retry + 1


@kopf.on.field(*BOATS, field="spec.crew", old=kopf.PRESENT)
async def muster(old: Any, new: Any, patch: kopf.Patch, **_: Any) -> None:
    patch.status["mustered"] = [old, new]


@kopf.on.update(*BOATS, field="spec.port")
async def sail(diff: kopf.Diff, patch: kopf.Patch, **_: Any) -> None:
    patch.status["sailed"] = [list(map(str, (item.op, item.old, item.new))) for item in diff]


@kopf.on.delete(*BOATS)
def scrap(name: str, namespace: str | None, **_: Any) -> None:
    core: Any = client.CoreV1Api()
    core.create_namespaced_config_map(namespace, {"metadata": {"name": f"scrap-of-{name}"}})


@kopf.timer(
    *BOATS, interval=0.1, labels={"clock": "yes"}, when=lambda status, **_: status.get("ticks", 0) < TICKS
)
async def tick(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.index(*BOATS)
async def by_port(spec: kopf.Spec, name: str, **_: Any) -> dict[str, str]:
    return {spec["port"]: name}


@kopf.on.event("v1", "configmaps", labels={"question": kopf.PRESENT})
async def answer(labels: kopf.Labels, annotations: kopf.Annotations, patch: kopf.Patch, **more: Any) -> None:
    """Annotate the config map with the boats in the requested port."""
    boats = ",".join(sorted(more["by_port"].get(labels["question"], [])))
    if annotations.get("answer") != boats:
        patch.metadata.annotations["answer"] = boats


@kopf.on.create("operators.suite.fairway.dev", "v1", "barges")
async def moor(patch: kopf.Patch, **_: Any) -> None:
    """Barges are not known when the operator starts."""
    patch.status["moored"] = True
