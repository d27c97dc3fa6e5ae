"""Certificates and keys.

``certificates`` has the primitives: an ``Identity`` (key and certificate), an ``Authority`` that issues and verifies,
and files that only their owner can read. ``hub_certificates.Certificates`` creates, loads and renews what a hub runs
with: its certificate authority, its serving certificate and the administrator's client certificate, in the folder
``pki`` of the data folder. ``authn`` verifies client certificates with the authority, ``csr`` signs with it.
"""
