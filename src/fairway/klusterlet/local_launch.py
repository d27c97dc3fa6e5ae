"""Translate a Deployment into a local process: arguments, environment and files.

Users who may create works on the cluster may write the Deployment, without being allowed to run programs on this
machine. So the only program that is ever started is Fairway, as an agent; it gets only options that ``local_options``
allows, reads only mounted files, and listens only on the loopback address.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from fairway.api.resources import APPLIED_MANIFEST_WORKS
from fairway.klusterlet.local_options import CONFINED, NotLaunchable, allowed_variables, check_arguments
from kubewire.api.meta import ObjectMeta
from kubewire.client import Resource

PROGRAM: Final = "fairway"
VERB: Final = "agent"
REVISION: Final = "deployment.kubernetes.io/revision"
"""Annotation that a deployment controller sets."""
HEALTH_OPTION: Final = "--health-address"
LOOPBACK: Final = "127.0.0.1"

NO_VARIABLE: Final = "variable {name} of container {container}: valueFrom is not supported by local agents"
NO_VOLUME: Final = "volume {name}: type not supported by local agents: use a secret or an emptyDir"
BAD_VOLUME: Final = "{name!r} is not a valid volume name"
BAD_ACCOUNT: Final = "{name!r} is not a valid service account name"
LONGEST: Final = 100_000
TOO_LONG: Final = f"an argument or variable is longer than {LONGEST} characters after expansion"
TOO_MANY_PORTS: Final = "too many ports for a local agent"
NO_PART: Final = "volume {name}: subPath is not supported by local agents"

_REFERENCE: Final = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
_ADDRESS: Final = re.compile(
    r"(?:0\.0\.0\.0|\[::\]|\*|localhost|127\.0\.0\.1)?:(?P<port>[0-9]{1,5})", re.ASCII
)
"""Listen address in a container: all addresses, or the loopback."""
_ACCOUNT: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)
_VOLUME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class _FieldRef(Struct, frozen=True, rename="camel"):
    field_path: str = ""


class _ValueFrom(Struct, frozen=True, rename="camel"):
    field_ref: _FieldRef | None = None


class _Variable(Struct, frozen=True, rename="camel"):
    name: str = ""
    value: str = ""
    value_from: _ValueFrom | None = None


class _Port(Struct, frozen=True, rename="camel"):
    name: str = ""
    container_port: int = 0


class _Mount(Struct, frozen=True, rename="camel"):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""


class _HttpGet(Struct, frozen=True):
    path: str = "/"
    port: int | str = 0


class _Probe(Struct, frozen=True, rename="camel"):
    http_get: _HttpGet | None = None
    period_seconds: int = 10
    timeout_seconds: int = 1


class Container(Struct, frozen=True, rename="camel"):
    name: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[_Variable, ...] = ()
    ports: tuple[_Port, ...] = ()
    volume_mounts: tuple[_Mount, ...] = ()
    readiness_probe: _Probe | None = None
    liveness_probe: _Probe | None = None


class _SecretVolume(Struct, frozen=True, rename="camel"):
    secret_name: str = ""
    optional: bool = False


class _Volume(Struct, frozen=True, rename="camel"):
    name: str = ""
    secret: _SecretVolume | None = None
    empty_dir: dict[str, object] | UnsetType | None = UNSET


class _PodSpec(Struct, frozen=True, rename="camel"):
    containers: tuple[Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()
    service_account_name: str = ""


class _Template(Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Spec(Struct, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class DeploymentCondition(Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _Status(Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def agent(self) -> Container | None:
        """The container of Fairway's agent, if a ManifestWork created the Deployment."""
        work = APPLIED_MANIFEST_WORKS
        if not any(
            (owner.kind, owner.apiVersion) == (work.kind, work.api_version)
            for owner in self.metadata.ownerReferences
        ):
            return None
        for container in self.spec.template.spec.containers:
            if (container.command + container.args)[:2] == (PROGRAM, VERB):
                return container
        return None


DEPLOYMENTS: Final = Resource(
    group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True, type=Deployment
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    url: str
    period: float
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """``folders`` maps folders to the Secrets for their files; ``empty`` are folders without files."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[Path, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    empty: tuple[Path, ...] = ()
    account: str = "default"
    ready: Probe | None = None


def launch_of(deployment: Deployment, *, folder: Path, ports: Iterable[int]) -> Launch:
    """``folder`` is for its files; ``ports`` are free ports of this machine.

    Raises NotLaunchable.
    """
    container = deployment.agent
    assert container is not None
    pod = deployment.spec.template.spec
    account = pod.service_account_name or "default"
    if not _ACCOUNT.fullmatch(account):
        raise NotLaunchable(BAD_ACCOUNT.format(name=account))
    volumes = folder / "volumes"
    places = _places(container, pod, volumes)
    port_map = _PortMap(container, ports=ports)
    variables = _variables(deployment, container)
    paths = {mount.mount_path.rstrip("/"): str(places[mount.name]) for mount in container.volume_mounts}

    def map_paths(text: str) -> str:
        return _map_paths(text, paths)

    words = [_expand(arg, variables) for arg in (container.command + container.args)[2:]]
    arguments = [VERB, *check_arguments(words, volumes=volumes, path=map_paths, address=port_map.address)]
    arguments += port_map.health_option(container, arguments)
    arguments.append(f"{CONFINED}={volumes}")
    secrets = {volume.name: volume.secret for volume in pod.volumes if volume.secret is not None}
    return Launch(
        arguments=tuple(arguments),
        variables={name: map_paths(value) for name, value in allowed_variables(variables).items()},
        folders={places[name]: secret.secret_name for name, secret in secrets.items() if name in places},
        optional=frozenset(mounted.secret_name for mounted in secrets.values() if mounted.optional),
        empty=tuple(place for name, place in places.items() if name not in secrets),
        account=account,
        ready=_ready(container, port_map),
    )


def _places(container: Container, pod: _PodSpec, folder: Path) -> dict[str, Path]:
    """Local folders by volume."""
    volumes = {listed.name: listed for listed in pod.volumes}
    folders: dict[str, Path] = {}
    for mount in container.volume_mounts:
        if not _VOLUME.fullmatch(mount.name):
            raise NotLaunchable(BAD_VOLUME.format(name=mount.name))
        volume = volumes.get(mount.name)
        if volume is None or (volume.secret is None and volume.empty_dir is UNSET):
            raise NotLaunchable(NO_VOLUME.format(name=mount.name))
        if mount.sub_path:
            raise NotLaunchable(NO_PART.format(name=mount.name))
        folders[mount.name] = folder / mount.name
    return folders


def _variables(deployment: Deployment, container: Container) -> dict[str, str]:
    """In order: each may refer to earlier ones."""
    meta = deployment.metadata
    fields = {
        "metadata.name": f"{meta.name}-local",
        "metadata.namespace": meta.namespace,
        "spec.serviceAccountName": deployment.spec.template.spec.service_account_name or "default",
        "spec.nodeName": "localhost",
        "status.podIP": LOOPBACK,
    }
    environment: dict[str, str] = {}
    for variable in container.env:
        if variable.value_from is None:
            environment[variable.name] = _expand(variable.value, environment)
            continue
        reference = variable.value_from.field_ref
        if reference is None or reference.field_path not in fields:
            raise NotLaunchable(NO_VARIABLE.format(name=variable.name, container=container.name))
        environment[variable.name] = fields[reference.field_path]
    return environment


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """Expand ``$(NAME)`` as Kubernetes does: unknown names stay, ``$$`` is a dollar.

    Raises NotLaunchable if the result is too long: each variable may double the one before.
    """
    left = LONGEST - len(text)

    def value(match: re.Match[str]) -> str:
        nonlocal left
        if match[1] == "$":
            return "$"
        put = variables.get(match[2], match[0])
        left -= len(put)
        if left < 0:
            raise NotLaunchable(TOO_LONG)
        return put

    if left < 0:
        raise NotLaunchable(TOO_LONG)
    return _REFERENCE.sub(value, text)


def _map_paths(text: str, paths: Mapping[str, str]) -> str:
    """Replace paths of the container by local paths."""
    if not paths:
        return text
    longest_first = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.sub(rf"(?<![^=:,])({longest_first})(?=/|$)", lambda match: paths[match[1]], text)


class _PortMap:
    """Maps ports of the container to local ports, so that agents with the same ports do not collide."""

    def __init__(self, container: Container, *, ports: Iterable[int]) -> None:
        self._named = {port.name: port.container_port for port in container.ports}
        self._free = iter(ports)
        self._ports: dict[int, int] = {}

    def port(self, wanted: int | str) -> int:
        """Raises NotLaunchable."""
        number = wanted if isinstance(wanted, int) else self._named.get(wanted, 0)
        if number not in self._ports:
            free = next(self._free, None)
            if free is None:
                raise NotLaunchable(TOO_MANY_PORTS)
            self._ports[number] = free
        return self._ports[number]

    def address(self, text: str) -> str:
        """Empty for an invalid address. Raises NotLaunchable."""
        match = _ADDRESS.fullmatch(text)
        return "" if match is None else f"{LOOPBACK}:{self.port(int(match['port']))}"

    def health_option(self, container: Container, arguments: list[str]) -> list[str]:
        """Set the health address, which in a container has a default port."""
        probe = container.readiness_probe or container.liveness_probe
        given = any(argument.startswith(f"{HEALTH_OPTION}=") for argument in arguments)
        if probe is None or probe.http_get is None or given:
            return []
        return [f"{HEALTH_OPTION}={LOOPBACK}:{self.port(probe.http_get.port)}"]


def _ready(container: Container, port_map: _PortMap) -> Probe | None:
    probe = container.readiness_probe
    if probe is None or probe.http_get is None:
        return None
    path = f"/{probe.http_get.path.lstrip('/')}"
    return Probe(
        url=f"http://{LOOPBACK}:{port_map.port(probe.http_get.port)}{path}",
        period=float(max(probe.period_seconds, 1)),
        timeout=float(max(probe.timeout_seconds, 1)),
    )
