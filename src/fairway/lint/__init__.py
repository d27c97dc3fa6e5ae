"""Find mistakes in placements and the objects they use."""

from fairway.lint.finding import Finding, Rule, Severity, identity_of
from fairway.lint.linter import RULES, lint

__all__ = ["RULES", "Finding", "Rule", "Severity", "identity_of", "lint"]
