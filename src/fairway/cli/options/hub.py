"""Options that select a hub."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class HubChoice:
    """The options that select a hub; without them it is found as kubectl does."""

    kubeconfig: str | None = None
    context: str | None = None

    @property
    def given(self) -> bool:
        return self.kubeconfig is not None or self.context is not None

    @property
    def kubectl(self) -> str:
        """The kubectl command for the same hub."""
        words = ["kubectl"]
        if self.kubeconfig is not None:
            words += ["--kubeconfig", self.kubeconfig]
        if self.context is not None:
            words += ["--context", self.context]
        return shlex.join(words)


def hub_options(command: _Command) -> _Command:
    """Add `--kubeconfig` and `--context`, passed together as `hub`, a HubChoice.

    Must be the decorator next to the function.
    """

    @wraps(command)
    def chosen(*arguments: Any, kubeconfig: str | None, context: str | None, **options: Any) -> Any:
        return command(*arguments, hub=HubChoice(kubeconfig=kubeconfig, context=context), **options)

    wrapped = cast("_Command", chosen)
    for option in (
        click.option(
            "--context", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]"
        ),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            help="Kubeconfig of the hub.  [default: $KUBECONFIG, ~/.kube/config, the pod's service account]",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped
