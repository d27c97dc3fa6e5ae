"""Addresses of health, metrics and the debug endpoint."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from fairway.cli.errors import BadInputError
from fairway.cli.lazy import parsed_by

if TYPE_CHECKING:
    from fairway.cli.options.permits import InsecurePermitListening, PermitListening
    from fairway.controllers.serving.address import Address, CannotListen

HEALTH: Final = ":8081"
METRICS: Final = ":8080"
DEBUG: Final = ":9443"
OFF: Final = "off"
POD_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
"""Kubernetes sets it in every container."""

HALF_A_PAIR: Final = "--tls-cert and --tls-key require each other"
CANNOT_LISTEN: Final = "{reason}; set another address with {options}"
NOTHING_TO_PROTECT: Final = "--tls-cert requires --debug-address or --permit-address"

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Addresses; None is off. Without ``certificate`` and ``key`` the debug endpoint uses a self-signed certificate."""

    health: "Address | None" = None
    metrics: "Address | None" = None
    debug: "Address | None" = None
    certificate: Path | None = None
    key: Path | None = None
    permits: "PermitListening | None" = None
    insecure_permits: "InsecurePermitListening | None" = None

    @property
    def options(self) -> dict[str, "Address | None"]:
        """Return the addresses by option."""
        return {
            "--health-address": self.health,
            "--metrics-address": self.metrics,
            "--debug-address": self.debug,
            "--permit-address": None if self.permits is None else self.permits.address,
            "--insecure-permit-address": None
            if self.insecure_permits is None
            else self.insecure_permits.address,
        }


def cannot_listen(error: "CannotListen", options: "Mapping[str, Address | None]") -> BadInputError:
    """Return the error of a command; ``options`` are the addresses by option."""
    names = [name for name, address in options.items() if address == error.address]
    return BadInputError(CANNOT_LISTEN.format(reason=error.strerror, options=" and ".join(names or options)))


def in_a_pod() -> bool:
    return bool(os.environ.get(POD_VARIABLE))


def serving_options(command: _Command) -> _Command:
    """Add the three addresses, `--tls-cert` and `--tls-key`, passed together as `listening`.

    Options of the permit server, if the command has them, are a part of it.
    """

    @wraps(command)
    def gathered(
        *arguments: Any,
        health_address: "Address | None",
        metrics_address: "Address | None",
        debug_address: "Address | None",
        tls_cert: Path | None,
        tls_key: Path | None,
        permits: "PermitListening | None" = None,
        insecure_permits: "InsecurePermitListening | None" = None,
        **options: Any,
    ) -> Any:
        if (tls_cert is None) != (tls_key is None):
            raise click.UsageError(HALF_A_PAIR)
        if tls_cert is not None and debug_address is None and permits is None:
            raise click.UsageError(NOTHING_TO_PROTECT)
        listening = Listening(
            health=health_address,
            metrics=metrics_address,
            debug=debug_address,
            certificate=tls_cert,
            key=tls_key,
            permits=permits,
            insecure_permits=insecure_permits,
        )
        return command(*arguments, listening=listening, **options)

    wrapped = cast("_Command", gathered)
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("--tls-key", type=file, metavar="FILE", help="Private key of --tls-cert."),
        click.option(
            "--tls-cert",
            type=file,
            metavar="FILE",
            help="Certificate of the debug endpoint and of the permit server, reloaded when it changes.  "
            "[default: self-signed]",
        ),
        address_option(
            "--debug-address", DEBUG, "Serve OCM's debug endpoint over TLS to users who may get placements"
        ),
        address_option("--metrics-address", METRICS, "Serve Prometheus metrics at /metrics"),
        address_option("--health-address", HEALTH, "Serve health checks at /livez and /readyz"),
    ):
        wrapped = option(wrapped)
    return wrapped


def address_option(name: str, default: str, what: str) -> Callable[[_Command], _Command]:
    return click.option(
        name,
        type=parsed_by("fairway.cli.addresses:address"),
        default=lambda: default if in_a_pod() else OFF,
        metavar="HOST:PORT",
        help=f"{what}; {OFF} disables it.  [default: {default} in a pod, {OFF} elsewhere]",
    )
