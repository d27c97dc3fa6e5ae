"""Credentials from an exec plugin, as in kubectl: cloud logins, OIDC, certificates from a vault.

The plugin gets its input in an environment variable and prints an ExecCredential. The result is kept until it expires
or the hub rejects it. However many requests wait, the plugin runs once.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from kubewire.api.annotation import Time
from kubewire.client.credentials import Proof, bearer
from kubewire.client.errors import ConfigError, CredentialError
from kubewire.client.tls import Certificate

VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
NEVER: Final = "Never"
IF_AVAILABLE: Final = "IfAvailable"
ALWAYS: Final = "Always"
INFO_VARIABLE: Final = "KUBERNETES_EXEC_INFO"
LONGEST_COMPLAINT: Final = 400

NO_CREDENTIAL: Final = "exec plugin {command!r} did not return an ExecCredential"
INCOMPLETE_PAIR: Final = "exec plugin {command!r} returned only one of certificate and key"


class ExecVariable(Struct, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""

    def __repr__(self) -> str:
        return f"<ExecVariable {self.name}>"


class ExecSpec(Struct, frozen=True, kw_only=True):
    """The ``exec`` of a kubeconfig's user."""

    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    api_version: str = field(default="", name="apiVersion")
    interactive_mode: str = field(default="", name="interactiveMode")
    install_hint: str = field(default="", name="installHint")
    provide_cluster_info: bool = field(default=False, name="provideClusterInfo")

    def __repr__(self) -> str:
        # Arguments and variables may hold passwords.
        return f"<ExecSpec {self.command}>"

    def mode(self, *, place: str, field: str) -> str:
        """Raise ConfigError for an invalid configuration."""
        remedies = {"place": place, "field": f"{field}.exec"}
        if not self.command:
            raise ConfigError("names no command", **remedies, remedy="set the program to run")
        if self.api_version not in VERSIONS:
            message = f"apiVersion {self.api_version!r} is not supported"
            raise ConfigError(message, **remedies, remedy=f"write one of {', '.join(VERSIONS)}")
        modes = f"write one of {NEVER}, {IF_AVAILABLE}, {ALWAYS}"
        if not self.interactive_mode:
            if self.api_version == VERSIONS[0]:
                raise ConfigError("interactiveMode is missing", **remedies, remedy=modes)
            return IF_AVAILABLE
        if self.interactive_mode not in (NEVER, IF_AVAILABLE, ALWAYS):
            raise ConfigError(
                f"interactiveMode {self.interactive_mode!r} is unknown", **remedies, remedy=modes
            )
        return self.interactive_mode


class _Credential(Struct, frozen=True):
    token: str = ""
    chain: str = field(default="", name="clientCertificateData")
    key: str = field(default="", name="clientKeyData")
    expires: Time | None = field(default=None, name="expirationTimestamp")


class _Answer(Struct, frozen=True):
    kind: str = ""
    version: str = field(default="", name="apiVersion")
    status: _Credential | None = None


_answer: Final = msgspec.json.Decoder(_Answer)


def _now() -> datetime:
    return datetime.now(UTC)


def _has_terminal() -> bool:
    # Without standard input, as in `command <&-`, Python has no stdin.
    return sys.stdin is not None and sys.stdin.isatty()


class ExecPlugin:
    """``cluster`` is passed to plugins with provideClusterInfo. ``timeout`` is in seconds, and applies only to plugins
    that do not prompt the user.
    """

    def __init__(
        self,
        spec: ExecSpec,
        *,
        cluster: Mapping[str, Any] | None = None,
        place: str = "",
        field: str = "user",
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = _now,
        terminal: Callable[[], bool] = _has_terminal,
        timeout: float = 60.0,
    ) -> None:
        self._spec = spec
        self._mode = spec.mode(place=place, field=field)
        self._cluster = cluster
        self._environ = environ
        self._clock, self._terminal, self._timeout = clock, terminal, timeout
        self._kept: Proof | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.command}>"

    async def proof(self) -> Proof:
        async with self._lock:
            if self._kept is None or (self._expires is not None and self._expires <= self._clock()):
                await self._run()
            assert self._kept is not None
            return self._kept

    async def renew(self, rejected: Proof) -> bool:
        async with self._lock:
            if self._kept == rejected:
                await self._run()
            return self._kept != rejected

    async def _run(self) -> None:
        self._kept = None
        interactive = self._interactive()
        status = self._read(await self._output(interactive=interactive))
        certificate = Certificate(status.chain.encode(), status.key.encode()) if status.chain else None
        self._kept = Proof(bearer(status.token) if status.token else "", certificate)
        self._expires = status.expires

    def _interactive(self) -> bool:
        if self._mode == NEVER:
            return False
        there = self._terminal()
        if self._mode == ALWAYS and not there:
            raise CredentialError(
                f"exec plugin {self._spec.command!r} needs a terminal for input, and there is none"
            )
        return there

    async def _output(self, *, interactive: bool) -> bytes:
        environment = dict(os.environ if self._environ is None else self._environ)
        environment |= {variable.name: variable.value for variable in self._spec.env or ()}
        environment[INFO_VARIABLE] = self._exec_info(interactive=interactive)
        command = self._spec.command
        program = shutil.which(command, path=environment.get("PATH"))
        if program is None:
            raise CredentialError(self._with_hint(f"exec plugin {command!r} is not installed"))
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *(self._spec.args or ()),
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
                # A session of its own, so that its children can be killed; a plugin that prompts needs our terminal.
                start_new_session=not interactive,
            )
        except OSError as error:
            raise CredentialError(f"exec plugin {command!r} cannot be started ({error.strerror})") from None
        try:
            async with asyncio.timeout(None if interactive else self._timeout):
                output, complaint = await process.communicate()
        except TimeoutError:
            raise CredentialError(f"exec plugin {command!r} timed out after {self._timeout:g} s") from None
        finally:
            if process.returncode is None:
                await _kill(process, group=not interactive)
        if process.returncode != 0:
            message = f"exec plugin {command!r} failed with exit code {process.returncode}"
            # Its output may hold a token; its errors are for the user.
            printed = " ".join((complaint or b"").decode(errors="replace").split())[-LONGEST_COMPLAINT:]
            raise CredentialError(self._with_hint(f"{message}: {printed}" if printed else message))
        return output

    def _exec_info(self, *, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._spec.provide_cluster_info and self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"kind": "ExecCredential", "apiVersion": self._spec.api_version, "spec": spec}
        return msgspec.json.encode(info).decode()

    def _read(self, output: bytes) -> _Credential:
        command, expected = self._spec.command, self._spec.api_version
        try:
            answer = _answer.decode(output)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise CredentialError(NO_CREDENTIAL.format(command=command)) from None
        if answer.kind != "ExecCredential":
            raise CredentialError(NO_CREDENTIAL.format(command=command))
        if answer.version != expected:
            raise CredentialError(
                f"exec plugin {command!r} returned apiVersion {answer.version!r}, expected {expected!r}"
            )
        status = answer.status
        if status is None or not (status.token or status.chain or status.key):
            raise CredentialError(f"exec plugin {command!r} returned neither a token nor a certificate")
        if bool(status.chain) != bool(status.key):
            raise CredentialError(INCOMPLETE_PAIR.format(command=command))
        return status

    def _with_hint(self, message: str) -> str:
        hint = self._spec.install_hint.strip()
        return f"{message}; {hint}" if hint else message


async def _kill(process: asyncio.subprocess.Process, *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    await process.wait()
