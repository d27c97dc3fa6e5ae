"""Authentication: find the user of a request.

``authenticator.Authenticator`` tries, in this order, the TLS client certificate and the bearer token, and returns a
``user.User`` or raises a 401. Bearer tokens are looked up in a static token file and in bootstrap token secrets
(``bearer_tokens``), or verified as JWTs of service accounts (``service_account_tokens``, with the key in ``jwt``).
``bootstrap_account`` creates the service account that joining clusters use, as OCM names it.

Words: an *issuer* signs and verifies service account tokens; a *bound* token is valid only while the pod, secret or
node that it names exists.
"""
