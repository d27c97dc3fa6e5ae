"""Services and endpoints: stored and defaulted; no address is assigned, because nothing would route to it."""

from typing import Final

from kubehub.kind import Kind
from kubehub.resource import Document
from kubehub.write_request import WriteRequest
from kubewire.api import naming

HEADLESS: Final = "None"
_AFFINITY_SECONDS: Final = 10800


class Service(Kind):
    naming = staticmethod(naming.label)
    allow_create_on_update = True
    return_deleted_object = True

    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        kind = spec.setdefault("type", "ClusterIP")
        if spec.setdefault("sessionAffinity", "None") == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", _AFFINITY_SECONDS)
        if kind != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port", 0)

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        spec = document["spec"]
        if old is None:
            document["status"] = {"loadBalancer": {}}
        if spec.get("type") == "ExternalName":
            return
        if address := spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [address])
        both = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")


class Endpoints(Kind):
    allow_create_on_update = True

    def default(self, document: Document) -> None:
        for subset in document.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")
