"""The embedded hub: a Kubernetes API server for development, tests, demos and small installations.

One process, one SQLite file. A request enters through ``serving``, is authenticated (``authn``, ``pki``) and
authorized (``rbac``), and is answered from ``storage`` or passed on to ``writing``. That validates the document with
``schemas`` and the hooks in ``kinds``, computes patches with ``patches``, asks ``admission`` and commits. ``builtin``
describes the fields of Kubernetes' own kinds, ``crd`` turns definitions into resources, ``csr`` signs certificates,
``controllers`` run in the background. ``serialization``, ``printing`` and ``openapi`` produce what clients read.
``flowcontrol`` and ``slicing`` keep one user's requests from delaying others. ``hub.Hub`` assembles all.

``kind`` is the interface of a kind's hooks, ``registry`` the served resources, ``write_request``, ``options`` and
``request_info`` what a request asks for, ``selectors`` what it selects, ``status`` the error responses. ``backup``,
``portable`` and ``key_replacement`` work on the data of a hub for the command line.

Words: a *resource* is one served (group, version, plural). A *document* is an object as plain JSON, never a typed
Struct, because an API server must keep every field. A *schema node* defines the values of a field and how it merges. A
*refusal* is an error response, a ``Status``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kubehub import version

if TYPE_CHECKING:
    from kubehub.authn.bearer_tokens import StaticTokens, TokenFileFault
    from kubehub.hub import RENEWAL_SECONDS, Hub, Settings, running
    from kubehub.pki.certificates import CertificateFault
    from kubehub.resource import Document
    from kubehub.storage.entry import StoreError
    from kubehub.storage.store import CHANGES_KEPT

_HOME: Final = {
    "CHANGES_KEPT": "storage.store",
    "CertificateFault": "pki.certificates",
    "Document": "resource",
    "Hub": "hub",
    "RENEWAL_SECONDS": "hub",
    "Settings": "hub",
    "StaticTokens": "authn.bearer_tokens",
    "StoreError": "storage.entry",
    "TokenFileFault": "authn.bearer_tokens",
    "running": "hub",
}

__version__ = version.VERSION

__all__ = [
    "CHANGES_KEPT",
    "RENEWAL_SECONDS",
    "CertificateFault",
    "Document",
    "Hub",
    "Settings",
    "StaticTokens",
    "StoreError",
    "TokenFileFault",
    "__version__",
    "running",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the server and its libraries take a while to load."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
