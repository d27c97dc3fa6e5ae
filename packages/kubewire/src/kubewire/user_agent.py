"""How this program names itself to API servers."""

import platform

from kubewire.version import VERSION

_agent: str | None = None


def identify(*, program: str, version: str) -> None:
    """Name the program in the requests of all clients that are created from now on, as client-go's build does."""
    global _agent
    _agent = f"{program}/{version} ({platform.system().lower()}/{platform.machine()})"


def user_agent() -> str:
    if _agent is None:
        identify(program="kubewire", version=VERSION)
    assert _agent is not None
    return _agent
