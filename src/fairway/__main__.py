"""``python -m fairway`` is the ``fairway`` command."""

from fairway.cli.main import main

main()
