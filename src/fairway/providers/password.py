"""User name and password, with the password read from a file again when the file changes."""

from typing import Final

from kubewire.client.credentials import Credentials, Proof, basic
from kubewire.client.errors import CredentialError
from kubewire.client.tls import File

NO_PASSWORD_FILE: Final = "password file {path} cannot be read ({why})"
EMPTY_PASSWORD_FILE: Final = "password file {path} is empty"


class PasswordFile:
    """Basic authentication. ``others`` supply the client certificate, if any."""

    def __init__(self, path: str, *, username: str, others: Credentials) -> None:
        self._file, self._username, self._others = File(path), username, others

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._file.path}>"

    async def proof(self) -> Proof:
        return await self._read(afresh=False)

    async def renew(self, rejected: Proof) -> bool:
        return await self._read(afresh=True) != rejected

    async def _read(self, *, afresh: bool) -> Proof:
        try:
            content = self._file.read(afresh=afresh)
        except OSError as error:
            raise CredentialError(NO_PASSWORD_FILE.format(path=self._file.path, why=error.strerror)) from None
        password = content.decode("utf-8", errors="replace").strip()
        if not password:
            raise CredentialError(EMPTY_PASSWORD_FILE.format(path=self._file.path))
        return Proof(basic(self._username, password), (await self._others.proof()).certificate)
