"""Scores written in a file: prices, carbon, latency or preferences, by cluster, by label or by time.

file ──declaration──▶ values per cluster at this moment (schedule) ──▶ readings
"""
