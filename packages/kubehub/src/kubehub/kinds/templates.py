"""Pod specifications, of pods and of workload templates: defaults and required fields."""

from collections.abc import Iterator
from typing import Any, Final

from kubehub import status
from kubehub.resource import Document
from kubehub.status import Cause
from kubewire.api import naming

GRACE: Final = 30
_MODE: Final = 0o644
_TOKEN_SECONDS: Final = 3600
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def containers(spec: Document) -> Iterator[Document]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from (c for c in spec.get(part) or () if isinstance(c, dict))


def default_template(template: Any) -> None:
    """``template`` is unchecked."""
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        default_pod_spec(template["spec"])


def default_pod_spec(spec: Document) -> None:
    """Set the defaults that Kubernetes sets in every pod specification, templates included."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("terminationGracePeriodSeconds", GRACE)
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    if account := spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", account)
    for container in containers(spec):
        _default_container(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _default_container(container: Document) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    latest = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(probe := container.get(name), dict):
            for key, value in _PROBE.items():
                probe.setdefault(key, value)
            _default_call(probe)
    for hook in (container.get("lifecycle") or {}).values():
        _default_call(hook)
    for variable in container.get("env") or ():
        _default_reference(variable.get("valueFrom"))


def _default_call(action: Any) -> None:
    if isinstance(action, dict) and isinstance(call := action.get("httpGet"), dict):
        call.setdefault("path", "/")
        call.setdefault("scheme", "HTTP")


def _default_reference(source: Any) -> None:
    if isinstance(source, dict) and isinstance(field := source.get("fieldRef"), dict):
        field.setdefault("apiVersion", "v1")


def _default_volume(volume: Document) -> None:
    for name in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(source := volume.get(name), dict):
            source.setdefault("defaultMode", _MODE)
    if isinstance(path := volume.get("hostPath"), dict):
        path.setdefault("type", "")
    if isinstance(made := volume.get("ephemeral"), dict):
        claim = made.get("volumeClaimTemplate") or {}
        claim.get("spec", {}).setdefault("volumeMode", "Filesystem")
    sources = (volume.get("projected") or {}).get("sources") or ()
    for source in (volume, *sources):
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _default_reference(item)
        if isinstance(token := source.get("serviceAccountToken"), dict):
            token.setdefault("expirationSeconds", _TOKEN_SECONDS)


def pod_spec_causes(spec: Document, path: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield status.required(f"{path}.containers")
    for part in ("containers", "initContainers"):
        names: set[str] = set()
        for index, container in enumerate(spec.get(part) or ()):
            place, name = f"{path}.{part}[{index}]", container.get("name") or ""
            if not name:
                yield status.required(f"{place}.name")
            elif name in names:
                yield status.duplicate(f"{place}.name", name)
            else:
                yield from (status.invalid_value(f"{place}.name", name, f) for f in naming.label(name))
            names.add(name)
            if not container.get("image"):
                yield status.required(f"{place}.image")
