"""`fairway run` as it is, but that it looks for OCM's controller all the time instead of twice a minute."""

import sys
from unittest.mock import patch

from fairway.cli import main as cli


def main() -> None:
    sys.argv = ["fairway", "run", *sys.argv[1:]]
    with patch("fairway.controllers.manager.OCM_SECONDS", 0.05):
        cli.main()
