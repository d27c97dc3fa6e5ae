"""Incoming connections of a server: who may keep one, before and after authentication.

    TCP accept ──GuardedTls──▶ gate.admit(peer) ──▶ TLS handshake ──▶ HTTP protocol ──authenticated──▶ gate.trust(place)

- ``gate`` counts connections in total and for each peer, and evicts unauthenticated ones when there are too many.
- ``tls`` counts a connection from its TCP accept on: asyncio's own TLS servers show one only after the handshake, so
  that silent clients would be unlimited.

A *peer* is a client address, with IPv6 the /64 network that one machine may use as it likes. A *place* is what an
admitted connection has at the gate. A connection is *trusted* once its request is authenticated.
"""

from kubewire.inbound.gate import Gate, Place, peer_of
from kubewire.inbound.tls import GuardedTls

__all__ = ["Gate", "GuardedTls", "Place", "peer_of"]
