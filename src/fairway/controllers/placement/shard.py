"""Shards: each process has the placements of its share of the namespaces."""

import re
import zlib
from dataclasses import dataclass
from typing import Final

BAD_SHARD: Final = (
    "{text!r} is not a shard; write it like 0/3: the number of this shard, from 0, and how many there are"
)

_SHARD: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A namespace is in one shard of ``count``, the same one in every process and every version of Fairway."""

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """From ``I/N``. Raises ValueError."""
        match = _SHARD.fullmatch(text)
        if match is None or int(match[1]) >= int(match[2]):
            raise ValueError(BAD_SHARD.format(text=text))
        return cls(index=int(match[1]), count=int(match[2]))

    def has(self, namespace: str) -> bool:
        return self.count == 1 or zlib.crc32(namespace.encode()) % self.count == self.index

    @property
    def lease(self) -> str:
        """Name of the Lease its leader holds."""
        return "fairway-placement" if self.count == 1 else f"fairway-placement-{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
