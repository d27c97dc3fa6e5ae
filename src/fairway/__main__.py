"""``python -m fairway`` and the scripts ``fairway`` and ``kubectl-fairway``."""

from importlib import import_module

from fairway.cli.interrupt import exit_on_interrupt


def main() -> None:
    # Before anything else is imported: users press Ctrl-C as early as they like.
    exit_on_interrupt()
    import_module("fairway.cli.main").main()


if __name__ == "__main__":
    main()
