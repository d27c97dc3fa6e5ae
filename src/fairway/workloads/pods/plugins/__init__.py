"""Plugins that place pods on nodes, one file per plugin, with the names, reasons, codes and scores of kube-scheduler.

``normalizing`` and ``topology`` are what several plugins share.
"""
