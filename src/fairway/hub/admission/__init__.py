"""Admission policies: what may be written beyond what roles and schemas say.

A ValidatingAdmissionPolicy names requests and what must be true of them, a ValidatingAdmissionPolicyBinding puts it
into force. Both are judged as kube-apiserver does it, so a policy can be tried here before it goes elsewhere.
"""
