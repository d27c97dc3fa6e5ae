"""The commands of a page by section, and a shell to run them."""

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def sections(document: str) -> dict[str, list[str]]:
    """Return blocks of commands by heading; "" for those before the first."""
    text = (ROOT / document).read_text(encoding="utf-8")
    starts = [*HEADING.finditer(text)]
    ends = [*(start.start() for start in starts), len(text)]
    parts = {"": text[: ends[0]]} | {
        start[1]: text[start.end() : end] for start, end in zip(starts, ends[1:], strict=True)
    }
    return {title: [dedent(block) for _, block in BLOCK.findall(part)] for title, part in parts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell in a folder of its own, with kubectl, helm and fairway for one hub."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        tools: tuple[Path, ...],
        kubeconfig: Path,
        fairway: Path,
        links: tuple[str, ...],
    ) -> "Shell":
        programs = folder / "bin"
        programs.mkdir(parents=True)
        for tool in tools:
            (programs / tool.name).symlink_to(tool)
        for name in links:
            (folder / name).symlink_to(ROOT / name)
        path = os.pathsep.join([str(programs), str(fairway), os.environ["PATH"]])
        home = {"HOME": str(folder), "KUBECONFIG": str(kubeconfig), "COLUMNS": "120", "NO_COLOR": "1"}
        return cls(folder=folder, environment={"PATH": path, **home})

    async def run(self, commands: str) -> str:
        """Run commands and return their output; fail with the first command that fails."""
        process = await asyncio.create_subprocess_exec(
            "bash",
            *("-e", "-u", "-o", "pipefail", "-c", commands),
            cwd=self.folder,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = output.decode()
        assert process.returncode == 0, f"{commands}\n{text}"
        return text
