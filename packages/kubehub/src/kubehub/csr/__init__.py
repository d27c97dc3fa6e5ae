"""Certificate signing requests, from the request to the certificate.

1. A client creates a CertificateSigningRequest; ``kind`` calls ``validation``, which checks the PKCS #10 request, the
   signer name and the usages.
2. A user with the permission ``approve`` for the signer approves it through ``/approval``; ``validation.admit`` checks
   that permission. The hub approves nothing itself; for OCM agents, ``fairway.controllers.acceptance`` does.
3. ``controllers.csr_signer`` passes an approved request to ``signing``, which issues the certificate by the rules of
   the signers that Kubernetes defines, or records why it failed.
"""
