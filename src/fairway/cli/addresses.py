"""Parse the addresses and the agents of options of servers."""

import click

from fairway.controllers.machines.agent_addresses import AgentSelector
from fairway.controllers.serving.address import Address


def address(text: str | Address | None) -> Address | None:
    """Parse an address; None is off."""
    if not isinstance(text, str):
        return text
    try:
        return Address.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def internal_address(text: str | Address | None) -> Address | None:
    parsed = address(text)
    if parsed is not None:
        try:
            parsed.check_internal()
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return parsed


def agent_selector(text: str | AgentSelector) -> AgentSelector:
    if not isinstance(text, str):
        return text
    try:
        return AgentSelector.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
