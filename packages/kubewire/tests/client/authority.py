"""A certificate authority in memory, made by the one that writes files."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rigs import certificates


@dataclass(frozen=True)
class Pair:
    chain: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Replace the files by other inodes, so that a reader detects it."""
        chain, key = folder / f"{name}.crt", folder / f"{name}.key"
        for path, content in ((chain, self.chain), (key, self.key)):
            aside = path.with_name(f"{path.name}.aside")
            aside.write_bytes(content)
            aside.replace(path)
        return chain, key


class Authority:
    def __init__(self, own: Pair | None = None) -> None:
        with TemporaryDirectory() as folder:
            self._own = own or _read(certificates.Authority.create(Path(folder)).pair)

    @property
    def certificate(self) -> bytes:
        return self._own.chain

    def intermediate(self) -> "Authority":
        """An authority that this one signs."""
        with TemporaryDirectory() as folder, TemporaryDirectory() as made:
            own = certificates.Pair(*self._own.write(Path(folder), "ca"))
            return Authority(_read(certificates.Authority(Path(folder), own).intermediate(Path(made)).pair))

    def server(self, *names: str) -> Pair:
        return self._issue("server", *names)

    def client(self, name: str) -> Pair:
        return self._issue(name)

    def _issue(self, name: str, *hosts: str) -> Pair:
        with TemporaryDirectory() as folder:
            own = certificates.Pair(*self._own.write(Path(folder), "ca"))
            return _read(certificates.Authority(Path(folder), own).issue(name, hosts=hosts))

    def serving(self, pair: Pair, folder: Path, *, asks_clients: bool = False) -> ssl.SSLContext:
        """For a server that shows ``pair``, and takes only clients of this authority if it asks."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair.write(folder, "server"))
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.certificate.decode())
        return context


def _read(pair: certificates.Pair) -> Pair:
    return Pair(pair.certificate.read_bytes(), pair.key.read_bytes())
