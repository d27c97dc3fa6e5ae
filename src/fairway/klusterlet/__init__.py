"""The agent of a managed cluster: registers it on a hub, renews its lease and certificates, applies its works.

    registration ──▶ enrolment (CSR) ──▶ state (key and certificate on disk) ──▶ klusterlet
    klusterlet runs: heartbeat, status_reporter, renewal, addons (identities of add-on agents), works

It replaces OCM's klusterlet where hub and clusters run on one machine. ``bootstrap`` installs what it needs on the
cluster, ``unjoin`` removes it. ``addon_secret`` stores the identities of add-on agents on the cluster,
``addon_health`` reports their leases. ``local_agents`` runs add-on agents as processes where no kubelet runs:
``local_options`` checks what a Deployment may set, ``local_launch`` derives the command, ``local_process`` runs it.

Words: a *membership* is the cluster's registration as the hub has it; a *record* is an AppliedManifestWork.
"""
