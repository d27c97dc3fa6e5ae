"""Run pytest, and run the few tests that failed once more, alone: a racy test is reported, but does not fail a check.

The suite has thousands of tests against real servers and processes, on machines that other work shares. A test that
fails again in a process of its own is a failure, and so are many failures, which no race explains. One that passes is
listed under "racy", with the output of its failure above, so that it is fixed, not hidden.

    python tools/pytest_again.py -n 4 -q -m "not kube"
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

FAILED = Path(".pytest_cache/v/cache/lastfailed")
RACY_AT_MOST = 3


def failed_tests() -> list[str]:
    try:
        return sorted(json.loads(FAILED.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


def run(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def main(arguments: Sequence[str]) -> int:
    # What an earlier run left is not a failure of this one.
    FAILED.unlink(missing_ok=True)
    status = run(arguments)
    tests = failed_tests()
    # Other statuses are interrupts, internal errors and wrong arguments, which another attempt would only hide.
    if status != pytest.ExitCode.TESTS_FAILED or not 0 < len(tests) <= RACY_AT_MOST:
        return status
    print(f"==> {len(tests)} failed; each once more, alone", flush=True)
    for test in tests:
        if status := run(["-q", "-p", "no:cacheprovider", test]):
            return status
    print("==> racy, fix them: they failed beside others and passed alone", *tests, sep="\n    ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
