"""An exclusive lock on a data folder. The operating system releases it when the process ends."""

import os
from pathlib import Path
from typing import Final

from kubehub.storage.entry import Locked, Unreadable

FILE: Final = "hub.lock"


class Lock:
    """Held from construction until ``release``. The file contains the holder's process id and is never removed:
    otherwise two processes could lock two files of the same name."""

    def __init__(self, folder: Path) -> None:
        import fcntl  # imported here, so that an in-memory store works on platforms without it

        path = folder / FILE
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Unreadable(folder, detail=error.strerror or str(error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise Locked(folder, holder=int(holder) if holder.isdecimal() else None) from error
        # Best effort: on a full disk the lock holds, but the file doesn't name its holder.
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)
