"""Finding and unpacking the Prometheus of the tests."""

import stat
import sys
from pathlib import Path

import pytest

from providers.tools import monitoring, prometheus


def script(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


DOWNLOAD = "pathlib.Path('prometheus_1_all.deb').write_text('x')"
UNPACK = """\
if sys.argv[1] == '--field':
    print('2.42.0+ds-5')
else:
    folder = pathlib.Path(sys.argv[3], 'usr', 'bin')
    folder.mkdir(parents=True)
    (folder / 'prometheus').write_text('the server')
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_installed_prometheus_is_preferred(tmp_path: Path, environ: dict[str, str]) -> None:
    script(tmp_path / "bin", "prometheus", "")
    assert prometheus.program(environ) == tmp_path / "bin" / "prometheus"


def test_prometheus_package_is_unpacked_once(tmp_path: Path, environ: dict[str, str]) -> None:
    script(tmp_path / "bin", "apt-get", DOWNLOAD)
    script(tmp_path / "bin", "dpkg-deb", UNPACK)
    program = prometheus.program(environ)
    assert program == tmp_path / "cache/fairway/prometheus/2.42.0+ds-5/usr/bin/prometheus"
    assert program.read_text() == "the server"
    assert [path.name for path in (tmp_path / "cache/fairway/prometheus").iterdir()] == ["2.42.0+ds-5"]
    script(tmp_path / "bin", "apt-get", "sys.exit('nobody should ask')")
    assert prometheus.program(environ) == program


def test_missing_prometheus_skips_with_reason(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(prometheus.PrometheusMissing) as caught:
        prometheus.program(environ)
    assert str(caught.value) == prometheus.NO_APT
    script(tmp_path / "bin", "apt-get", "sys.exit('Unable to locate package prometheus')")
    script(tmp_path / "bin", "dpkg-deb", UNPACK)
    with pytest.raises(prometheus.PrometheusMissing, match="Unable to locate package prometheus"):
        prometheus.program(environ)
    assert prometheus.cached(environ) is None


def test_missing_prometheus_fails_in_ci(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise prometheus.PrometheusMissing("nowhere to be found")

    monkeypatch.setattr(prometheus, "program", missing)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(prometheus.PrometheusMissing):
        monitoring.program()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="nowhere to be found"):
        monitoring.program()
