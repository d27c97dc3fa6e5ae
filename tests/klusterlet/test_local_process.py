"""A child ends with its parent, however that ends."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from fairway.klusterlet.local_process import LocalProcess

PARENT = """\
import asyncio, sys
from pathlib import Path
from fairway.klusterlet.local_process import LocalProcess

async def main():
    folder = Path(sys.argv[1])
    started = asyncio.Event()
    process = LocalProcess("a", ["hub", "--port", "0", "--no-crds"], variables={}, folder=folder, changed=started.set)
    running = asyncio.create_task(process.run())
    await started.wait()
    print((folder / "pid").read_text(), flush=True)
    await running

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_child_dies_with_killed_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert not select.select([child], [], [], 0)[0]
            parent.kill()
            assert select.select([child], [], [], 120)[0]
        finally:
            os.close(child)


def test_log_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.klusterlet.local_process.LONGEST_LOG", 10)
    process = LocalProcess("a", [], variables={}, folder=tmp_path, changed=lambda: None)
    log = tmp_path / "log"
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab", buffering=0) as child:
        child.write(b"0123456789")
        process.trim_log()
        assert log.read_bytes() == b"0123456789"
        child.write(b"ab")
        process.trim_log()
        child.write(b"later")
    assert log.read_bytes() == b"later"
    assert (tmp_path / "log.old").read_bytes() == b"23456789ab"
    assert (tmp_path / "log.old").stat().st_mode & 0o777 == 0o600
