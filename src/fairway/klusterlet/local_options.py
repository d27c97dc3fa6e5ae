"""Options that a Deployment may pass to a local agent.

In a pod an agent reaches what the pod reaches. As a local process it could reach all that the user who runs the
klusterlet can: files, programs, the network. A list of forbidden options is never complete, so this is a list of
allowed ones.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final

from fairway.klusterlet.errors import KlusterletError

NOT_RUN: Final = "only `fairway agent run` can be a local agent, not `fairway agent {verb}`"
NO_OPTION: Final = "option {name!r} is not allowed for local agents; allowed are {known}"
NO_VALUE: Final = "option {name} has no value"
UNEXPECTED_VALUE: Final = "option {name} takes no value"
NOT_MOUNTED: Final = (
    "{name} {value!r} is not a file of a mounted Secret, the only files that a local agent may read"
)
NO_PROVIDER: Final = (
    "{name} {value!r} is not the name of a provider; a local agent runs none from files or modules"
)
BAD_ADDRESS: Final = "{name} {value!r} is not a port to listen on, such as :8081, or off"
AS_VARIABLE: Final = "variable {name} sets an option of the agent; pass the option to a local agent instead"
NUL: Final = "{what} contains a NUL character"

CONFINED: Final = "--confined-to"
"""Restricts the files that a kubeconfig of the agent may refer to."""
OFF: Final = "off"

VARIABLES: Final = frozenset(
    {
        "CLUSTER_NAME",
        "HUB_KUBECONFIG",
        "INSTALL_NAMESPACE",
        "CA_BUNDLE_FILE_PATH",
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *(
            "MAXCPUCOUNT",
            "MAXMEMCOUNT",
            "SCORES",
            "SCORE_FLOOR",
            "SCORE_NAME",
            "RATIOS",
            "PARITY",
            "HC_MAX_NUMBER",
            "HC_THRESHOLD_NUMBER",
        ),
    }
)
"""Variables for add-on agents and providers. Others could change the program that runs."""

_OPTION_PREFIX: Final = "FAIRWAY_"
_PROVIDER: Final = re.compile(r"[A-Za-z0-9][-_A-Za-z0-9]{0,62}", re.ASCII)


class NotLaunchable(KlusterletError):
    """The Deployment cannot run as a local agent."""


class _Kind(Enum):
    FLAG = auto()
    TEXT = auto()
    FILE = auto()
    ADDRESS = auto()
    PROVIDERS = auto()


# Without --kubeconfig, because the agent uses the service account, and without --config, because options of a provider
# may contain files, programs and addresses.
_OPTIONS: Final[Mapping[str, _Kind]] = {
    "--hub-kubeconfig": _Kind.FILE,
    "--cluster-name": _Kind.TEXT,
    "--providers": _Kind.PROVIDERS,
    "--interval": _Kind.TEXT,
    "--valid-for": _Kind.TEXT,
    "--adopt": _Kind.FLAG,
    "--managed-cluster-scores": _Kind.FLAG,
    "--addon-name": _Kind.TEXT,
    "--addon-namespace": _Kind.TEXT,
    "--lease": _Kind.FLAG,
    "--no-lease": _Kind.FLAG,
    "--log-format": _Kind.TEXT,
    "--log-level": _Kind.TEXT,
    "--metrics-address": _Kind.ADDRESS,
    "--health-address": _Kind.ADDRESS,
}

Translate = Callable[[str], str]


def check_arguments(
    words: Sequence[str], *, volumes: Path, path: Translate, address: Translate
) -> Iterator[str]:
    """Validate the arguments after ``fairway agent``, and yield them in normal form. Raises NotLaunchable.

    ``path`` and ``address`` translate those of the container; a file outside of ``volumes`` is rejected.
    """
    if not words or words[0] != "run":
        raise NotLaunchable(NOT_RUN.format(verb="" if not words else words[0]))
    yield words[0]
    rest = iter(words[1:])
    for word in rest:
        _check_nul(word, what="an argument")
        name, equals, value = word.partition("=")
        kind = _OPTIONS.get(name)
        if kind is None:
            raise NotLaunchable(NO_OPTION.format(name=name, known=", ".join(sorted(_OPTIONS))))
        if kind is _Kind.FLAG:
            if equals:
                raise NotLaunchable(UNEXPECTED_VALUE.format(name=name))
            yield name
            continue
        if not equals:
            following = next(rest, None)
            if following is None:
                raise NotLaunchable(NO_VALUE.format(name=name))
            _check_nul(following, what="an argument")
            value = following
        match kind:
            case _Kind.FILE:
                value = _file(name, path(value), volumes=volumes)
            case _Kind.ADDRESS:
                here = OFF if value == OFF else address(value)
                if not here:
                    raise NotLaunchable(BAD_ADDRESS.format(name=name, value=value))
                value = here
            case _Kind.PROVIDERS:
                _check_providers(name, value)
        yield f"{name}={value}"


def allowed_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the allowed variables. Raises NotLaunchable for variables that set options."""
    for name, value in variables.items():
        if name.startswith(_OPTION_PREFIX):
            raise NotLaunchable(AS_VARIABLE.format(name=name))
        if name in VARIABLES:
            _check_nul(value, what=f"variable {name}")
    return {name: value for name, value in variables.items() if name in VARIABLES}


def _file(name: str, value: str, *, volumes: Path) -> str:
    path = Path(os.path.normpath(value))
    if not path.is_relative_to(volumes) or len(path.parts) < len(volumes.parts) + 2:
        raise NotLaunchable(NOT_MOUNTED.format(name=name, value=value))
    return str(path)


def _check_providers(name: str, value: str) -> None:
    for provider in value.split(","):
        if provider.strip() and not _PROVIDER.fullmatch(provider.strip()):
            raise NotLaunchable(NO_PROVIDER.format(name=name, value=provider.strip()))


def _check_nul(text: str, *, what: str) -> None:
    if "\0" in text:
        raise NotLaunchable(NUL.format(what=what))
