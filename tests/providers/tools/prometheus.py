"""Find the Prometheus server of this machine, or unpack Debian's package into a cache, which needs no privileges.

python tests/providers/tools/prometheus.py      # prints the path of the program in the last line
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

PACKAGE = "prometheus"
PROGRAM = Path("usr", "bin", "prometheus")
UNFINISHED = ".unfinished"
REMEDY = "install Prometheus, so that `prometheus` is on the PATH"
NO_APT = f"there is no Prometheus here, and no apt-get and dpkg-deb to fetch Debian's with; {REMEDY}"
NOT_FETCHED = f"Debian's package {PACKAGE} cannot be fetched ({{why}}); {REMEDY}"


class PrometheusMissing(Exception):
    """Has the reason and the remedy."""


def cache(environ: Mapping[str, str] = os.environ) -> Path:
    home = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "fairway" / "prometheus"


def cached(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The newest of the cache; versions of one package compare well enough by when they were fetched."""
    folders = [path for path in cache(environ).glob("*") if not path.name.endswith(UNFINISHED)]
    programs = [folder / PROGRAM for folder in sorted(folders, key=lambda folder: folder.stat().st_mtime)]
    return next((program for program in reversed(programs) if program.is_file()), None)


def program(environ: Mapping[str, str] = os.environ) -> Path:
    """Raises PrometheusMissing."""
    if path := shutil.which(PACKAGE, path=environ.get("PATH")):
        return Path(path)
    return cached(environ) or fetch(environ)


def fetch(environ: Mapping[str, str] = os.environ) -> Path:
    apt, dpkg = (shutil.which(name, path=environ.get("PATH")) for name in ("apt-get", "dpkg-deb"))
    if apt is None or dpkg is None:
        raise PrometheusMissing(NO_APT)
    root = cache(environ)
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=root, suffix=UNFINISHED))
    folder.chmod(0o755)
    try:
        try:
            _run([apt, "download", PACKAGE], folder=folder)
        except PrometheusMissing:
            if os.geteuid() != 0:  # only root may refresh the lists, which are empty in a fresh container
                raise
            _run([apt, "update"], folder=folder)
            _run([apt, "download", PACKAGE], folder=folder)
        (package,) = folder.glob("*.deb")
        version = _run([dpkg, "--field", str(package), "Version"], folder=folder).strip()
        unpacked = folder / "unpacked"
        _run([dpkg, "--extract", str(package), str(unpacked)], folder=folder)
        target = root / version
        if not target.exists():  #  another process may have been faster, with the same version
            try:
                unpacked.rename(target)
            except OSError:
                if not target.is_dir():
                    raise
        return target / PROGRAM
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], *, folder: Path) -> str:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        output = " ".join((run.stderr or run.stdout).split())[-500:]
        raise PrometheusMissing(NOT_FETCHED.format(why=f"{Path(command[0]).name} {command[1]}: {output}"))
    return run.stdout


def main() -> int:
    try:
        print(program())
    except PrometheusMissing as missing:
        print(f"==> {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
