"""Endpoints of a controller process: health, metrics, and OCM's debug endpoint.

    request ──http_server──▶ probes (health, metrics)
                        └──▶ endpoint ──access (TokenReview, SubjectAccessReview)──▶ debug (scores of a placement)

``ports`` opens them, ``certificate`` provides the debug endpoint's TLS certificate. ``local_socket`` answers the
command line of the same user, without TLS.
"""

from fairway.controllers.serving.access import RULES
from fairway.controllers.serving.address import Address
from fairway.controllers.serving.certificate import CertificateError, CertificateFiles
from fairway.controllers.serving.debug import Inspector, document
from fairway.controllers.serving.local_socket import ask_locally, serving_locally
from fairway.controllers.serving.ports import DebugServer, Ports, open_ports

__all__ = [
    "RULES",
    "Address",
    "CertificateError",
    "CertificateFiles",
    "DebugServer",
    "Inspector",
    "Ports",
    "ask_locally",
    "document",
    "open_ports",
    "serving_locally",
]
