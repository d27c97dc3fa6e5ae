"""Cells of services, endpoints, ingresses and network policies."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from kubehub.printing.cells.parts import (
    NONE,
    UNSET,
    Cell,
    at,
    field,
    first_few,
    labels,
    name_with_default,
    selector,
)
from kubehub.resource import Document


def _load_balancer_addresses(document: Document) -> list[str]:
    ingress = at(document, "status", "loadBalancer", "ingress") or ()
    return sorted({text for address in ingress if (text := address.get("ip") or address.get("hostname"))})


def _cluster(document: Document, _: datetime) -> str:
    addresses = at(document, "spec", "clusterIPs") or ()
    return (addresses[0] if addresses else at(document, "spec", "clusterIP")) or NONE


def _external(document: Document, _: datetime) -> str:
    own = at(document, "spec", "externalIPs") or []
    match at(document, "spec", "type"):
        case "ExternalName":
            return at(document, "spec", "externalName") or ""
        case "LoadBalancer":
            return ",".join([*_load_balancer_addresses(document), *own]) or "<pending>"
        case _:
            return ",".join(own) or NONE


def _ports(document: Document, _: datetime) -> str:
    texts = []
    for port in at(document, "spec", "ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or NONE


def _targets(document: Document) -> Iterator[str]:
    for subset in document.get("subsets") or ():
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        if not subset.get("ports"):
            yield from addresses
        for port in subset.get("ports") or ():
            yield from (f"{_bracket(address)}:{port.get('port', 0)}" for address in addresses)


def _bracket(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _slice_port(port: Document) -> str:
    number, name = port.get("port"), port.get("name")
    return str(number) if number is not None else name if name is not None else "*"


def _hosts(document: Document, _: datetime) -> str:
    rules = at(document, "spec", "rules") or ()
    return first_few((rule["host"] for rule in rules if rule.get("host")), missing="*")


def _parameters(document: Document, _: datetime) -> str:
    parameters = at(document, "spec", "parameters")
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


KINDS: Final[Mapping[str, Mapping[str, Cell]]] = {
    "Service": {
        "Type": field("spec", "type"),
        "Cluster-IP": _cluster,
        "External-IP": _external,
        "Port(s)": _ports,
        "Selector": labels("spec", "selector"),
    },
    "Endpoints": {"Endpoints": lambda d, _: first_few(_targets(d), missing="") if d.get("subsets") else NONE},
    "EndpointSlice": {
        "AddressType": field("addressType"),
        "Ports": lambda d, _: first_few(map(_slice_port, d.get("ports") or ()), missing=UNSET),
        "Endpoints": lambda d, _: first_few(
            (a for endpoint in d.get("endpoints") or () for a in endpoint.get("addresses") or ()),
            missing=UNSET,
        ),
    },
    "Ingress": {
        "Class": field("spec", "ingressClassName", missing=NONE),
        "Hosts": _hosts,
        "Address": lambda d, _: ",".join(_load_balancer_addresses(d)),
        "Ports": lambda d, _: "80, 443" if at(d, "spec", "tls") else "80",
    },
    "IngressClass": {
        "Name": name_with_default("ingressclass.kubernetes.io/is-default-class"),
        "Controller": field("spec", "controller"),
        "Parameters": _parameters,
    },
    "NetworkPolicy": {"Pod-Selector": selector("spec", "podSelector")},
}
