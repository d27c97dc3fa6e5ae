"""Settings that are added to an agent's pods: credentials, environment, scheduling and images."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from fairway.api.addon_config import (
    AddOnDeploymentConfigSpec,
    ContainerResourceRequirements,
    ImageMirror,
    ProxyConfig,
)
from fairway.controllers.addons import names
from kubewire.api.encoding import encode

CA_BUNDLE_VARIABLE: Final = "CA_BUNDLE_FILE_PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    volume: str
    path: str
    source: Mapping[str, Any]


class PodSettings:
    """``environment`` is set in every container, and overrides the template."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        mounts: tuple[Mount, ...],
        config: AddOnDeploymentConfigSpec,
        add_on: str,
    ) -> None:
        self._config = config
        self._environment = {**environment, **dict(_proxied(config.proxy))}
        self._mounts = mounts
        if config.proxy.caBundle:
            self._environment[CA_BUNDLE_VARIABLE] = f"{names.PROXY_CA_FOLDER}/{names.PROXY_CA_FILE}"
            source = {"configMap": {"name": names.proxy_ca(add_on)}}
            self._mounts += (Mount(volume=names.PROXY_CA_VOLUME, path=names.PROXY_CA_FOLDER, source=source),)

    def equip(self, manifest: dict[str, Any], *, plural: str) -> None:
        """Change the pod template in place. The managed cluster rejects an invalid one."""
        pod: Any = manifest
        for field in ("spec", "template", "spec"):
            pod = pod.get(field)
            if not isinstance(pod, dict):
                return
        for container in _containers(pod, "initContainers"):
            self._choose_image(container)
        for container in _containers(pod, "containers"):
            self._choose_image(container)
            container["env"] = [
                *_others(container.get("env"), self._environment, by="name"),
                *self._variables(),
            ]
            paths = {mount.path for mount in self._mounts}
            mounts = [{"name": mount.volume, "mountPath": mount.path} for mount in self._mounts]
            if kept := [*_others(container.get("volumeMounts"), paths, by="mountPath"), *mounts]:
                container["volumeMounts"] = kept
            self._limit(container, workload=f"{plural}:{manifest['metadata']['name']}")
        volumes = [{"name": mount.volume, **mount.source} for mount in self._mounts]
        if kept := [
            *_others(pod.get("volumes"), {mount.volume for mount in self._mounts}, by="name"),
            *volumes,
        ]:
            pod["volumes"] = kept
        self._place(pod)

    def _variables(self) -> Iterator[dict[str, str]]:
        for name, value in self._environment.items():
            yield {"name": name, "value": value}

    def _choose_image(self, container: dict[str, Any]) -> None:
        image = container.get("image")
        if isinstance(image, str):
            container["image"] = mirrored(image, self._config.registries)

    def _limit(self, container: dict[str, Any], *, workload: str) -> None:
        wanted = f"{workload}:{container.get('name')}"
        for requirement in reversed(self._config.resourceRequirements):
            if _fits(requirement, wanted):
                container["resources"] = encode(requirement.resources)
                return

    def _place(self, pod: dict[str, Any]) -> None:
        """Set node selector and tolerations independently; OCM drops the tolerations if there is no selector."""
        placement = self._config.nodePlacement
        if placement.nodeSelector:
            pod["nodeSelector"] = dict(placement.nodeSelector)
        if placement.tolerations:
            pod["tolerations"] = [encode(toleration) for toleration in placement.tolerations]


def mirrored(image: str, mirrors: tuple[ImageMirror, ...]) -> str:
    """The last applicable mirror counts. A mirror without a source replaces all but the last part of any image."""
    chosen = image
    for entry in mirrors:
        source, mirror = entry.source.removesuffix("/"), entry.mirror.removesuffix("/")
        if not source:
            last = image.rpartition("/")[2]
            chosen = f"{mirror}/{last}" if mirror else last
        elif image == source or image.startswith((f"{source}/", f"{source}:", f"{source}@")):
            chosen = f"{mirror}{image.removeprefix(source)}"
    return chosen


def _fits(requirement: ContainerResourceRequirements, container: str) -> bool:
    wanted, given = requirement.containerID.split(":"), container.split(":")
    return len(wanted) == len(given) and all(map(fnmatchcase, given, wanted))


def _proxied(proxy: ProxyConfig) -> Iterator[tuple[str, str]]:
    for name, value in (
        ("HTTP_PROXY", proxy.httpProxy),
        ("HTTPS_PROXY", proxy.httpsProxy),
        ("NO_PROXY", proxy.noProxy),
    ):
        if value:
            yield name, value
            yield name.lower(), value


def _containers(pod: Mapping[str, Any], field: str) -> Iterator[dict[str, Any]]:
    containers = pod.get(field)
    if isinstance(containers, list):
        yield from (container for container in containers if isinstance(container, dict))


def _others(entries: Any, taken: Any, *, by: str) -> list[Any]:
    """The template's entries without those we replace: the cluster rejects two of one name."""
    present = entries if isinstance(entries, list) else []
    return [
        entry
        for entry in present
        if not (isinstance(entry, dict) and isinstance(entry.get(by), str) and entry[by] in taken)
    ]
