"""The four built packages have metadata for a package index and only public test support; their examples run."""

import re
import subprocess
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGES = ("kubewire", "kubecel", "kubehub")
NEIGHBOURS = {
    "kubewire": set(),
    "kubecel": {"kubewire"},
    "kubehub": {"kubewire", "kubecel"},
    "fairway": set(PACKAGES),
}


def built(folder: Path, target: Path) -> tuple[set[str], Message]:
    """Return the files and the metadata of a folder's wheel."""
    (wheel,) = WheelBuilder(str(folder)).build(directory=str(target), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("dist-info/METADATA"))
    return set(names), Parser().parsestr(metadata)


def requirements(fields: Message) -> set[str]:
    texts = fields.get_all("Requires-Dist", [])
    return {re.split(r"[ <>=\[;]", text)[0] for text in texts if "extra ==" not in text}


def check_metadata(fields: Message) -> None:
    assert fields["Description-Content-Type"] == "text/markdown"
    assert not fields.get_all("Project-URL"), "name only pages that exist"


def test_wheel_of_fairway_has_metadata_for_an_index_and_only_public_test_support(tmp_path: Path) -> None:
    names, fields = built(ROOT, tmp_path)
    check_metadata(fields)
    assert set(fields.get_all("Provides-Extra", [])) == {"charts", "otel", "pytest"}
    assert set(PACKAGES) <= requirements(fields)
    testing = {Path(name).stem for name in names if name.startswith("fairway/testing/")}
    assert testing == {"__init__", "builders", "hub", "plugin"}
    assert "fairway/py.typed" in names
    assert all(name.startswith("fairway") for name in names)


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_of_a_package_has_metadata_for_an_index(package: str, tmp_path: Path) -> None:
    names, fields = built(ROOT / "packages" / package, tmp_path)
    check_metadata(fields)
    assert f"{package}/py.typed" in names
    assert all(name.startswith(package) for name in names)
    assert not {"fairway", "numpy"} & requirements(fields)


@pytest.mark.parametrize("package", [*PACKAGES, "fairway"])
def test_published_wheel_depends_on_releases_of_the_same_version(package: str, tmp_path: Path) -> None:
    # As `python -m build` does: the wheel is built from the sdist, which has no neighbours.
    folder = ROOT if package == "fairway" else ROOT / "packages" / package
    (archive,) = SdistBuilder(str(folder)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(archive) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    _, fields = built(source, tmp_path / "wheel")
    needed = list(map(Requirement, fields.get_all("Requires-Dist", [])))
    assert [str(requirement) for requirement in needed if requirement.url] == []
    versions = {need.name: str(need.specifier) for need in needed if need.name in PACKAGES}
    assert set(versions.values()) <= {f"=={fields['Version']}"}
    assert versions.keys() == NEIGHBOURS[package]


def closure(requirement: Requirement) -> dict[str, Distribution]:
    """Return the installed distributions that a requirement needs, itself included, by name."""
    needed: dict[str, Distribution] = {}
    waiting = [requirement]
    seen: set[str] = set()
    while waiting:
        need = waiting.pop()
        if str(need) in seen:
            continue
        seen.add(str(need))
        dist = needed[need.name] = distribution(need.name)
        for text in dist.requires or ():
            nested = Requirement(text)
            environments = [{"extra": extra} for extra in (*need.extras, "")]
            if nested.marker is None or any(map(nested.marker.evaluate, environments)):
                waiting.append(nested)
    return needed


def environment_with(needed: Iterable[Distribution], folder: Path) -> Path:
    """Create a virtual environment that has these distributions only, and return its interpreter."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for dist in needed:
        for file in dist.files or ():
            if (top := file.parts[0]) != ".." and not (packages / top).exists():
                (packages / top).symlink_to(Path(str(dist.locate_file(top))))
    for package in PACKAGES:
        if any(dist.name == package for dist in needed):
            (packages / package).symlink_to(ROOT / "packages" / package / "src" / package)
    return folder / "bin" / "python"


@pytest.mark.parametrize("package", PACKAGES)
def test_example_of_a_package_runs_with_only_what_the_package_needs(package: str, tmp_path: Path) -> None:
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "packages" / package / "README.md").read_text("utf-8"), re.DOTALL
    )
    needed = closure(Requirement(package))
    assert not {"fairway", "numpy"} & needed.keys()
    if package == "kubehub":
        needed |= closure(Requirement("kubernetes"))  # the client of the example
    python = environment_with(needed.values(), tmp_path / "venv")
    subprocess.run([python, "-W", "error", "-c", example], check=True, timeout=120, cwd=tmp_path)
