"""Finds mistakes in placements and what surrounds them, before they cost a decision."""

from fairway.whatif.lint.finding import Finding, Rule, Severity, identity_of
from fairway.whatif.lint.linter import RULES, lint

__all__ = ["RULES", "Finding", "Rule", "Severity", "identity_of", "lint"]
