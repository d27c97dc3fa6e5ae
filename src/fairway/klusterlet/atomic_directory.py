"""Files that are replaced together, laid out as the kubelet lays out a mounted Secret.

A key and its certificate are two files; a reader must not get one of them old and the other new. So the files of one
version are in a folder of their own, and readers open links through a link to that folder. Replacing that link replaces
all files at once, and a process that is killed at any moment leaves a complete version.
"""

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairway.klusterlet.errors import KlusterletError

CURRENT: Final = "..data"
PRIVATE: Final = 0o700
"""Mode of directories; only the owner may access them."""

BAD_NAME: Final = "{name!r} cannot be the name of a file in {folder}"

_NAME: Final = re.compile(r"(?!\.\.)[-._a-zA-Z0-9]{1,253}", re.ASCII)
"""Valid keys of a Secret, except those with two leading dots, which are reserved here."""


class InvalidName(KlusterletError):
    """A name that would address another directory or a reserved file."""


class AtomicDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, bytes]:
        """Empty before the first write. Raises OSError."""
        current = self.path / CURRENT
        if not current.is_dir():
            return {}
        return {path.name: path.read_bytes() for path in current.iterdir() if path.is_file()}

    def write(self, files: Mapping[str, bytes]) -> bool:
        """Return whether the content changed. Raises InvalidName and OSError, and then nothing changes."""
        for name in files:
            if name == "." or not _NAME.fullmatch(name):
                raise InvalidName(BAD_NAME.format(name=name, folder=self.path))
        # An unchanged version is not replaced: readers that watch the folder would reload for nothing.
        if self.read() == dict(files):
            return False
        make_private(self.path)
        fresh = self.path / f"..{secrets.token_hex(8)}"
        fresh.mkdir(mode=PRIVATE)
        try:
            for name, content in files.items():
                # Synced to disk before the link refers to it: after a power failure, the link must not point to empty
                # files.
                write_private(fresh / name, content)
            _switch(self.path / CURRENT, fresh.name)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        # Old versions are removed last. A reader that resolved the link before still gets both old files, or fails and
        # reads again, but never one of each.
        self._remove_old(set(files), keep=fresh.name)
        return True

    def _remove_old(self, names: set[str], *, keep: str) -> None:
        for name in names:
            link = self.path / name
            if not link.is_symlink():
                _switch(link, f"{CURRENT}/{name}")
        for path in self.path.iterdir():
            if path.name in (CURRENT, keep):
                continue
            if path.is_dir() and not path.is_symlink() and path.name.startswith(".."):
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_symlink() and path.name not in names:
                path.unlink(missing_ok=True)
        _flush(self.path)


def make_private(path: Path) -> None:
    """Create the directory and its missing parents."""
    path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)


def write_private(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_private(path: Path, content: bytes) -> None:
    """Replace the file atomically."""
    make_private(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        write_private(temporary, content)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _flush(path.parent)


def _switch(link: Path, target: str) -> None:
    temporary = link.with_name(f"..link-{secrets.token_hex(4)}")
    # A link cannot be changed in place, and removing it first would leave a moment without one: rename replaces it.
    os.symlink(target, temporary)
    os.replace(temporary, link)


def _flush(folder: Path) -> None:
    """Sync directory entries to disk, so that they survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
