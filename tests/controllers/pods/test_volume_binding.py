"""Claims that wait for their first consumer get their volume for the node of the pod, before the pod is bound."""

import asyncio
from typing import Any

import pytest

from controllers.pods.pod_hub import NAMESPACE, PodHub, scheduling
from fairway.controllers.pods.kinds import CLAIMS, CSI_NODES, STORAGE_CLASSES, VOLUMES

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

SELECTED = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
DRIVER = "csi.example.com"
SHORT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: fairway
  pluginConfig:
  - name: VolumeBinding
    args: {bindTimeoutSeconds: 30}
"""


class VolumeHub(PodHub):
    def add_class(self, provisioner: str = DRIVER) -> None:
        document = {
            "metadata": {"name": "late"},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self.put(STORAGE_CLASSES, document)

    def add_claim(self, name: str) -> None:
        spec = {
            "storageClassName": "late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self.put(CLAIMS, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)

    def add_volume(self, name: str, *, on: str) -> None:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        }
        self.put(VOLUMES, {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}})

    def user(self, name: str, claim: str, **more: Any) -> None:
        self.pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}], **more)

    def selected(self, claim: str) -> str:
        return str(self.read(CLAIMS, NAMESPACE, claim).metadata.annotations.get(SELECTED, ""))

    def claim_of(self, volume: str) -> str:
        reference = self.read(VOLUMES, "", volume).spec.claimRef
        return "" if reference is None else str(reference.name)

    # The controllers of volumes

    def complete(self, claim: str, volume: str) -> None:
        """Bind a claim to a volume that names it."""
        key = ("persistentvolumes", "", volume)
        self.store(key, {**self.documents[key], "status": {"phase": "Bound"}})
        key = ("persistentvolumeclaims", NAMESPACE, claim)
        old = self.documents[key]
        meta = {
            **old["metadata"],
            "annotations": {**old["metadata"].get("annotations", {}), BIND_COMPLETED: "yes"},
        }
        self.store(key, {**old, "metadata": meta, "spec": {**old["spec"], "volumeName": volume}})

    def provision(self, claim: str) -> None:
        uid = self.read(CLAIMS, NAMESPACE, claim).metadata.uid
        self.add_volume(f"pv-{claim}", on=self.selected(claim))
        key = ("persistentvolumes", "", f"pv-{claim}")
        old = self.documents[key]
        reference = {"namespace": NAMESPACE, "name": claim, "uid": uid}
        csi = {"driver": DRIVER, "volumeHandle": claim}
        self.store(key, {**old, "spec": {**old["spec"], "claimRef": reference, "csi": csi}})
        self.complete(claim, f"pv-{claim}")

    def fail_to_provision(self, claim: str) -> None:
        key = ("persistentvolumeclaims", NAMESPACE, claim)
        old = self.documents[key]
        self.store(key, {**old, "metadata": {**old["metadata"], "annotations": {}}})


async def test_pod_is_bound_once_its_claim_is_provisioned_for_its_node() -> None:
    hub = VolumeHub()
    hub.node("n1")
    hub.add_claim("data")
    async with scheduling(hub):
        hub.user("db", "data")
        await hub.until(lambda: hub.condition("db")[0] == "False")
        assert "pod has unbound immediate PersistentVolumeClaims" in hub.condition("db")[2]
        hub.add_class()  # wakes the pod
        await hub.until(lambda: hub.selected("data") == "n1")
        # Others are not kept from being bound meanwhile.
        for at in range(3):
            hub.pod(f"other-{at}")
        await hub.until(lambda: len(hub.placed()) == 3)
        assert hub.place("db") == ""
        hub.provision("data")
        await hub.bound("db")


async def test_pod_binds_a_volume_that_exists_and_two_pods_never_the_same() -> None:
    hub = VolumeHub()
    hub.node("n1")
    hub.node("n2")
    hub.add_class("kubernetes.io/no-provisioner")
    hub.add_volume("local", on="n2")
    for name in ("first", "second"):
        hub.add_claim(name)
    async with scheduling(hub):
        hub.user("pod-1", "first")
        hub.user("pod-2", "second")
        await hub.until(lambda: hub.condition("pod-2")[0] == "False")
        assert "didn't find available persistent volumes to bind" in hub.condition("pod-2")[2]
        assert hub.claim_of("local") == "first"
        volume = hub.read(VOLUMES, "", "local")
        assert volume.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
        hub.complete("first", "local")
        await hub.bound("pod-1")
        hub.add_volume("more", on="n1")  # wakes the other one
        await hub.until(lambda: hub.claim_of("more") == "second")
        hub.complete("second", "more")
        await hub.bound("pod-2")
    assert hub.placed() == {"pod-1": "n2", "pod-2": "n1"}


async def test_pod_is_tried_elsewhere_when_its_claim_cannot_be_provisioned() -> None:
    hub = VolumeHub()
    hub.node("n1")
    hub.add_class()
    hub.add_claim("data")
    async with scheduling(hub):
        hub.user("db", "data")
        await hub.until(lambda: hub.selected("data") == "n1")
        hub.node("n2", cpu="64")
        hub.node("n1", unschedulable=True)
        hub.fail_to_provision("data")
        await hub.until(lambda: hub.selected("data") == "n2")
        hub.provision("data")
        await hub.bound("db")
    assert hub.place("db") == "n2"


async def test_claim_that_is_not_bound_in_time_is_reported_and_tried_again() -> None:
    hub = VolumeHub()
    hub.node("n1", cpu="1")
    hub.add_class()
    hub.add_claim("data")
    async with scheduling(hub, config=SHORT):
        hub.user("db", "data")
        await hub.until(lambda: hub.condition("db")[0] == "False")
        assert asyncio.get_running_loop().time() >= 30
        assert hub.condition("db")[1:] == (
            "SchedulerError",
            "VolumeBinding: binding volumes: after 30 seconds not bound: PersistentVolumeClaim default/data",
        )
        hub.provision("data")
        await hub.bound("db")


async def test_deleted_pod_gives_its_volume_back() -> None:
    hub = VolumeHub()
    hub.node("n1", cpu="1")
    hub.add_class("kubernetes.io/no-provisioner")
    hub.add_volume("local", on="n1")
    for name in ("first", "second"):
        hub.add_claim(name)
    async with scheduling(hub):
        hub.user("pod-1", "first")
        await hub.until(lambda: hub.claim_of("local") == "first")
        hub.end("pod-1")
        key = ("persistentvolumes", "", "local")
        spec = {name: value for name, value in hub.documents[key]["spec"].items() if name != "claimRef"}
        hub.store(key, {**hub.documents[key], "spec": spec})  # the claim is deleted, and the volume kept
        hub.user("pod-2", "second")
        await hub.until(lambda: hub.claim_of("local") == "second")
        hub.complete("second", "local")
        await hub.bound("pod-2")


async def test_pod_wakes_when_a_volume_limit_is_raised_or_a_volume_is_released() -> None:
    hub = VolumeHub()
    hub.node("n1")
    hub.add_class()

    def limit(count: int) -> None:
        drivers = [{"name": DRIVER, "allocatable": {"count": count}}]
        hub.put(CSI_NODES, {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}})

    limit(1)
    for name in ("a", "b", "c"):
        hub.add_claim(name)
    async with scheduling(hub):
        hub.user("pod-a", "a")
        await hub.until(lambda: hub.selected("a") == "n1")
        hub.provision("a")
        await hub.bound("pod-a")
        hub.user("pod-b", "b")
        await hub.until(lambda: hub.condition("pod-b")[0] == "False")
        assert "exceed max volume count" in hub.condition("pod-b")[2]
        limit(2)
        await hub.until(lambda: hub.selected("b") == "n1")
        hub.provision("b")
        await hub.bound("pod-b")
        hub.user("pod-c", "c")
        await hub.until(lambda: hub.condition("pod-c")[0] == "False")
        hub.end("pod-a")
        await hub.until(lambda: hub.selected("c") == "n1")
        hub.provision("c")
        await hub.bound("pod-c")
