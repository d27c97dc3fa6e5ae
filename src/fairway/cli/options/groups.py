"""Groups of subcommands."""

from difflib import get_close_matches
from typing import Final

import click

_MAYBE: Final = ". Did you mean {near!r}?"


class SubcommandGroup(click.Group):
    """Suggests the nearest subcommand for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.commands, n=1)
            hint = _MAYBE.format(near=near[0]) if near else f"; known: {', '.join(self.commands)}."
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)
