"""Role-based access control: what a user may do.

``serving`` asks ``authorizer.Authorizer`` about every request; ``roles`` matches rules and validates roles;
``kinds`` rejects roles and bindings that grant more than their author holds. ``default_roles`` creates the roles of
every hub from ``default.roles``. ``impersonation`` authorizes the Impersonate headers; ``reviews`` answers
TokenReview, SubjectAccessReview and their relatives.

Words: *attributes* describe a request (verb, resource, namespace, name or path); a *decision* is the answer with its
reason; an *aggregated* ClusterRole takes its rules from the roles that its selectors match.
"""
