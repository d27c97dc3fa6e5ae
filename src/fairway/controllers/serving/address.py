"""Listen addresses."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

OFF: Final = "off"
WRONG: Final = (
    "{given!r} is not an address to listen on: write HOST:PORT, [HOST]:PORT or :PORT for all, or {off!r}"
)

_WRITTEN: Final = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?\.?")


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
        found = _WRITTEN.fullmatch(text)
        if found is None or int(found["port"]) > 65535:
            raise ValueError(WRONG.format(given=text, off=OFF))
        six, host = found["six"], found["host"]
        if six is not None:
            try:
                ipaddress.IPv6Address(six)
            except ValueError:
                raise ValueError(WRONG.format(given=text, off=OFF)) from None
        elif host and not _NAME.fullmatch(host):
            raise ValueError(WRONG.format(given=text, off=OFF))
        return cls(host=six or host or "", port=int(found["port"]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
