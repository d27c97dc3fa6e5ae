"""Listen addresses."""

import errno
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final

OFF: Final = "off"
IN_USE: Final = "the port is in use by another process"
NOT_PERMITTED: Final = "permission denied, as for ports below 1024"
NOT_LOCAL: Final = "not an address of this machine"
WRONG: Final = (
    "{given!r} is not an address to listen on: write HOST:PORT, [HOST]:PORT or :PORT for all, or {off!r}"
)

_WRITTEN: Final = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?\.?")


NOT_INTERNAL: Final = (
    "{given} may be reachable from outside of the cluster: write the address of the pod (with the downward API, "
    "$(POD_IP):PORT), or a loopback address"
)


class CannotListen(OSError):
    """A server cannot listen on its address."""

    def __init__(self, address: "Address", error: OSError) -> None:
        self.address = address
        self.reason = _reason(error)
        super().__init__(error.errno, f"cannot listen on {address}: {self.reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An empty host means all interfaces; port 0 means any that is free."""

    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> "Address | None":
        """None for ``off``. Raises ValueError."""
        if text == OFF:
            return None
        match = _WRITTEN.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            raise ValueError(WRONG.format(given=text, off=OFF))
        six, host = match["six"], match["host"]
        if six is not None:
            try:
                ipaddress.IPv6Address(six)
            except ValueError:
                raise ValueError(WRONG.format(given=text, off=OFF)) from None
        elif host and not _NAME.fullmatch(host):
            raise ValueError(WRONG.format(given=text, off=OFF))
        return cls(host=six or host or "", port=int(match["port"]))

    def check_internal(self) -> None:
        """Check that this is one address of a private network or of this machine. Raises ValueError."""
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            raise ValueError(NOT_INTERNAL.format(given=self)) from None
        if address.is_unspecified or address.is_global or address.is_multicast:
            raise ValueError(NOT_INTERNAL.format(given=self))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_not_local(error: OSError) -> bool:
    """Return whether this machine has no such address."""
    # From Python 3.13 on, asyncio tries all addresses of a name, and its error then has no number.
    unbound = error.errno in (None, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return unbound or isinstance(error, socket.gaierror)


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return IN_USE
    if error.errno == errno.EACCES:
        return NOT_PERMITTED
    if is_not_local(error):
        return NOT_LOCAL
    return error.strerror or str(error)
