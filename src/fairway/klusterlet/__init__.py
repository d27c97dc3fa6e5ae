"""The agent of a managed cluster: registers it on a hub, renews its lease and certificates, applies its works.

    registration ──▶ enrolment (CSR) ──▶ state (key and certificate on disk) ──▶ klusterlet
    klusterlet runs: heartbeat, status_reporter, renewal, addons (identities of add-on agents), works

It replaces OCM's klusterlet where hub and clusters run on one machine. ``bootstrap`` installs what it needs on the
cluster, ``unjoin`` removes it, ``local_agents`` runs add-on agents as processes where no kubelet runs.

Words: a *membership* is the cluster's registration as the hub has it; a *record* is an AppliedManifestWork.
"""
