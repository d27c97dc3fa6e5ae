"""Scores from Prometheus or Thanos: one query per score, for the whole fleet.

query ──api──▶ series ──reduction──▶ one value each ──attribution (label to cluster)──▶ readings
"""
