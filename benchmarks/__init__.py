"""Benchmarks, one module each."""

import sys
from pathlib import Path

# The rigs that start real hubs and processes are shared with the tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
