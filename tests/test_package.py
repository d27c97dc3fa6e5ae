"""The built package has metadata for a package index, and no test rigs."""

import zipfile
from email.parser import Parser
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent


def test_wheel_has_metadata_for_an_index_and_only_public_test_support(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("dist-info/METADATA"))
        (entry_points,) = (archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    fields = Parser().parsestr(metadata)
    urls = {url.partition(",")[0] for url in fields.get_all("Project-URL", [])}
    assert {"Homepage", "Documentation", "Source", "Changelog"} <= urls
    assert set(fields.get_all("Provides-Extra", [])) == {"otel", "pytest"}
    assert fields["Description-Content-Type"] == "text/markdown"
    assert "pytest11" not in entry_points
    testing = {Path(name).stem for name in names if name.startswith("fairway/testing/")}
    assert testing == {"__init__", "background", "builders", "hub", "plugin"}
    assert "fairway/py.typed" in names
