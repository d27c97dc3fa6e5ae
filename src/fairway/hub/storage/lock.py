"""One process at a time owns a data folder. The lock goes with the process, however it ends."""

import os
from pathlib import Path
from typing import Final

from fairway.hub.storage.entry import Locked, Unreadable

FILE: Final = "hub.lock"


class Lock:
    """Holds from construction until ``release``. The file names the holder and is never removed: removing it would
    let two processes lock two files of the same name."""

    def __init__(self, folder: Path) -> None:
        import fcntl  # here, so that a store in memory can be had where this module can't

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
        # Best effort: on a full disk the lock holds all the same, only nameless.
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)
