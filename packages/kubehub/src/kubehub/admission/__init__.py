"""Admission policies: ValidatingAdmissionPolicy and its binding, evaluated as kube-apiserver does.

``writing`` calls ``control.Admission`` with an ``AdmissionRequest`` for every write of a client, just before the
commit. ``matching`` finds the policies and bindings that apply, ``params`` their parameters, ``policies`` compiles a
policy and evaluates it in the CEL environment of ``cel_environment`` and ``cel_authorizer``. ``kinds`` validates
policies and bindings. ``cluster_acceptance`` is the policy that a hub of managed clusters starts with.

Words: a *denial* is a failed validation; its actions decide whether it rejects, warns or is audited.
"""
