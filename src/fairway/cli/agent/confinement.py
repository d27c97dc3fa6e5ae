"""Keep a local agent, which a ManifestWork started on this machine, away from other files and programs.

Its hub kubeconfig comes from a Secret of the managed cluster, which every user with access to the cluster's works can
write. A kubeconfig can name programs to run, and files whose content is sent to a server that it also names.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fairway.cli.errors import BadInputError
from kubewire.client import ConfigError
from kubewire.client.kubeconfig import Kubeconfig

NO_PROGRAM: Final = "names a program to run (exec), which is not allowed for a local agent"
ELSEWHERE: Final = "{path} is outside the agent's folder, which is not allowed for a local agent"
USE_FILES: Final = "use a certificate or a token in the same folder as the kubeconfig"
NO_CONFIG: Final = "--config is not allowed for a local agent"
NO_PROVIDER: Final = (
    "--providers: {name!r} is not the name of an installed provider; a local agent loads none from files "
    "or modules"
)

_NOT_A_NAME: Final = frozenset(":/\\.")


def check(config: Kubeconfig, *, folder: Path) -> None:
    """Check all contexts of a kubeconfig. Raises ConfigError."""
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
