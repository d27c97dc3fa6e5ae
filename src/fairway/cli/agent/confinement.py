"""An agent that others had started on this machine: what it is told may not lead it to other files and programs.

Its hub kubeconfig comes from a Secret of the managed cluster, which whoever gives work to the cluster can write. A
kubeconfig can name programs to run and files to read, whose content is then sent to a server it also names.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fairway.cli.errors import BadInputError
from fairway.kube import ConfigError
from fairway.kube.kubeconfig import Kubeconfig

NO_PROGRAM: Final = "names a program to run (exec), which a local agent does not"
ELSEWHERE: Final = "{path} is not among the files the agent was given, and a local agent reads no others"
USE_FILES: Final = "use a certificate or a token beside the kubeconfig"
NO_CONFIG: Final = "--config: a local agent takes no options of providers from a file"
NO_PROVIDER: Final = (
    "--providers: {name!r} is not the name of a provider; a local agent runs none from files or modules"
)

_NOT_A_NAME: Final = frozenset(":/\\.")


def check(config: Kubeconfig, *, folder: Path) -> None:
    """Whatever context is chosen. Raises ConfigError."""
    for name, user in config.users.items():
        field, place = f"users[{name}].user", str(user.file)
        if user.value.exec is not None:
            raise ConfigError(NO_PROGRAM, place=place, field=f"{field}.exec", remedy=USE_FILES)
        value = user.value
        for key, path in (
            ("client-certificate", value.client_certificate),
            ("client-key", value.client_key),
            ("tokenFile", value.token_file),
        ):
            _check_path(user.path(path), folder=folder, place=place, field=f"{field}.{key}")
    for name, cluster in config.clusters.items():
        path = cluster.path(cluster.value.certificate_authority)
        field = f"clusters[{name}].cluster.certificate-authority"
        _check_path(path, folder=folder, place=str(cluster.file), field=field)


def check_providers(names: Iterable[str]) -> None:
    """Raises BadInputError."""
    for name in names:
        if _NOT_A_NAME & set(name):
            raise BadInputError(NO_PROVIDER.format(name=name))


def _check_path(path: str, *, folder: Path, place: str, field: str) -> None:
    if path and not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder)):
        raise ConfigError(ELSEWHERE.format(path=path), place=place, field=field, remedy=USE_FILES)
