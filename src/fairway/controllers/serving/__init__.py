"""What the controllers serve themselves: health, metrics, and OCM's debug endpoint."""

from fairway.controllers.serving.access import RULES
from fairway.controllers.serving.address import Address
from fairway.controllers.serving.certificate import CertificateError, Files
from fairway.controllers.serving.debug import Inspector, document
from fairway.controllers.serving.serving import DebugServer, Ports, serving

__all__ = [
    "RULES",
    "Address",
    "CertificateError",
    "DebugServer",
    "Files",
    "Inspector",
    "Ports",
    "document",
    "serving",
]
