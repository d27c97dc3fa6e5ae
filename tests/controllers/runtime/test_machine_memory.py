"""Memos take a share of what the container or the machine has."""

from pathlib import Path

from fairway.controllers.runtime.machine_memory import memo_limit


def test_memos_get_a_quarter_of_the_container(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1073741824\n", encoding="ascii")
    assert memo_limit((tmp_path / "absent", limit)) == 256 << 20


def test_container_without_limit_gets_a_quarter_of_the_machine(tmp_path: Path) -> None:
    for unlimited in ("max\n", "9223372036854771712\n"):
        limit = tmp_path / "memory.max"
        limit.write_text(unlimited, encoding="ascii")
        assert memo_limit((limit,)) == memo_limit(()) > 0
