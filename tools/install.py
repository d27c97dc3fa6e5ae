"""Create a virtual environment with the locked packages, and print the progress of each step.

The first `make` of a checkout takes about a minute, most of it in pip. Needs only the standard library.
"""

import os
import re
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK: Final = Path("requirements-dev.lock")
PIP: Final = ("-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off")
TICK_SECONDS: Final = 2.0
"""A step that prints nothing reports its elapsed time this often."""


class Progress:
    """A line that is rewritten on a terminal, and printed once for each step elsewhere."""

    def __init__(self, title: str) -> None:
        self.title, self.detail = title, ""
        self._began = time.monotonic()
        self._terminal = sys.stdout.isatty()
        self._lock = threading.Lock()

    def show(self, *, end: bool = False) -> None:
        text = f"    {self.title} {self.detail}".rstrip()
        with self._lock:
            if self._terminal:
                print(
                    f"\r\x1b[K{text} ({time.monotonic() - self._began:.0f} s)",
                    end="\n" if end else "",
                    flush=True,
                )
            elif end:
                print(f"{text} ({time.monotonic() - self._began:.0f} s)", flush=True)


@contextmanager
def step(title: str) -> Iterator[Progress]:
    """Report a step while it runs, also while it prints nothing."""
    progress = Progress(title)
    done = threading.Event()

    def tick() -> None:
        while not done.wait(TICK_SECONDS):
            progress.show()

    ticking = threading.Thread(target=tick, daemon=True)
    progress.show()
    ticking.start()
    try:
        yield progress
    finally:
        done.set()
        ticking.join()
        progress.show(end=True)


def pip(python: Path, *arguments: str, progress: Progress, total: int = 0) -> None:
    """Run pip and count the packages it collects. Exits with pip's output if it fails."""
    output: list[str] = []
    count = 0
    command = [str(python), *PIP, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if total and (collected := re.match(r"Collecting (\S+?)[=<>~! ;]", f"{line.rstrip()} ")):
                count += 1
                progress.detail = f"{count}/{total} {collected[1]}"
                progress.show()
            elif line.startswith("Installing collected packages"):
                progress.detail = f"unpacking {total} packages" if total else "unpacking"
                progress.show()
    if process.returncode:
        sys.exit("".join(output))
    progress.detail = f"{total} packages" if total else ""


def main(folder: Path) -> None:
    packages = sum(
        bool(re.match(r"[A-Za-z0-9]", line)) for line in LOCK.read_text(encoding="utf-8").splitlines()
    )
    with step("1/3 creating the virtual environment"):
        venv.create(folder, with_pip=True, symlinks=os.name == "posix")  # an existing one must be updatable
    python = folder / "bin" / "python"
    with step("2/3 installing locked packages") as progress:
        # The lock is complete, so pip has nothing to resolve. Its resolver refuses a pinned package that another one
        # wants with extras as soon as the index has a newer release.
        pip(python, "--no-deps", "--require-hashes", "-r", str(LOCK), progress=progress, total=packages)
    with step("3/3 installing fairway and its packages") as progress:
        folders = (".", *sorted(str(folder) for folder in Path("packages").iterdir()))
        editable = (option for folder in folders for option in ("-e", folder))
        pip(python, "--no-deps", "--no-build-isolation", *editable, progress=progress)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
