"""Scores of what is to come: another provider's values, recorded, continued by a seasonal trend, and doubted."""
