"""A page of the documents, played as it is written: files are saved, commands are typed, time passes."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PIECE: Final = re.compile(
    r"```(?P<kind>yaml|sh|console)\n(?P<text>.*?)```|<!-- (?P<seconds>\d+) s pass -->", re.DOTALL
)
_FILE: Final = re.compile(r"# (\S+\.(?:yaml|sh))\n")


@dataclass(frozen=True)
class Save:
    name: str
    text: str


@dataclass(frozen=True)
class Type:
    line: str
    shown: str


@dataclass(frozen=True)
class Pass:
    seconds: int


def pieces(page: Path) -> Iterator[Save | Type | Pass]:
    for piece in _PIECE.finditer(page.read_text(encoding="utf-8")):
        if piece["seconds"]:
            yield Pass(int(piece["seconds"]))
        elif piece["kind"] == "console":
            yield from _typed(piece["text"])
        elif name := _FILE.match(piece["text"]):
            yield Save(name[1], piece["text"])


def _typed(text: str) -> Iterator[Type]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield Type(line, shown)


@dataclass(frozen=True, kw_only=True)
class Shell:
    folder: Path
    kubectl: Path
    kubeconfig: Path

    async def type(self, line: str) -> str:
        """What is shown; it must succeed."""
        path = f"{self.kubectl.parent}:/usr/bin:/bin"
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            line,
            cwd=self.folder,
            env={
                "PATH": path,
                "KUBECONFIG": str(self.kubeconfig),
                "HOME": str(self.folder),
                "COLUMNS": "200",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:  # cancelled
                process.kill()
                await process.wait()
        assert process.returncode == 0, f"{line}\n{output.decode()}"
        return output.decode()
