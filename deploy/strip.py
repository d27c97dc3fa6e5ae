"""Delete shells, package managers and Perl from the root file system of the image, which needs only Python.

    python deploy/strip.py /

The databases of packages stay, because the bill of materials is made from them.
"""

import re
import sys
from pathlib import Path
from typing import Final

FOLDERS: Final = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin")
UNWANTED: Final = re.compile(
    r"(ba|da|rba)?sh|perl.*|apt(-.*)?|dpkg(-.*)?|debconf.*|su|login|passwd|chsh|newgrp|mount|umount|pip[0-9.]*"
)


def unwanted(root: Path) -> list[Path]:
    """Return the programs to delete; on Debian the first two folders are links to others."""
    return sorted(
        path
        for folder in FOLDERS
        if not (root / folder).is_symlink() and (root / folder).is_dir()
        for path in (root / folder).iterdir()
        if UNWANTED.fullmatch(path.name)
    )


def main(root: Path) -> None:
    for path in unwanted(root):
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
