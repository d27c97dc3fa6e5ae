"""Write the krew plugin `kubectl fairway`: the archive and its manifest.

    python deploy/krew.py --url https://…/fairway-krew.tar.gz --out dist

Fairway is a Python package, and krew installs only archives. So the archive has a launcher, which runs the installed
`fairway`, or the same version by uvx or pipx. The URL is where the archive will be published, which the workflow
`publish` knows.
"""

import argparse
import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any, Final

from fairway import __version__
from kubewire.documents.writer import dump_yaml

ROOT: Final = Path(__file__).parents[1]
ARCHIVE: Final = "fairway-krew.tar.gz"
MANIFEST: Final = "fairway.yaml"
PROGRAM: Final = "kubectl-fairway"
LAUNCHER: Final = """\
#!/bin/sh
if command -v fairway >/dev/null 2>&1; then exec fairway "$@"; fi
if command -v uvx >/dev/null 2>&1; then exec uvx --from fairway=={version} fairway "$@"; fi
if command -v pipx >/dev/null 2>&1; then exec pipx run --spec fairway=={version} fairway "$@"; fi
echo "kubectl fairway: the Python package fairway is missing; run: pip install fairway=={version}" >&2
exit 127
"""
DESCRIPTION: Final = """\
Fairway decides where workloads run across many Kubernetes clusters, through Open Cluster Management's Placement API.
The plugin explains decisions, previews placements, and lists clusters, scores and decisions of a hub.
"""
CAVEATS: Final = "Needs Python 3.11 or newer with the package fairway, or uvx, or pipx."


def archive(version: str) -> bytes:
    """Return the same bytes for the same version."""
    launcher = LAUNCHER.format(version=version).encode()
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content, mode in (
            (PROGRAM, launcher, 0o755),
            ("LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def manifest(version: str, *, url: str, sha256: str) -> dict[str, Any]:
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "fairway"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Explain and preview placements on clusters",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [
                {
                    "selector": {
                        "matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]
                    },
                    "uri": url,
                    "sha256": sha256,
                    "bin": PROGRAM,
                    "files": [{"from": name, "to": "."} for name in (PROGRAM, "LICENSE")],
                }
            ],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", required=True, help="where the archive will be published")
    parser.add_argument("--out", type=Path, required=True, help="folder for the archive and the manifest")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    packed = archive(__version__)
    described = manifest(__version__, url=given.url, sha256=hashlib.sha256(packed).hexdigest())
    (given.out / ARCHIVE).write_bytes(packed)
    (given.out / MANIFEST).write_text(dump_yaml(described, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
