"""Find mistakes in placements and the objects they use."""

from fairway.whatif.lint.finding import Finding, Rule, Severity, identity_of
from fairway.whatif.lint.linter import RULES, lint

__all__ = ["RULES", "Finding", "Rule", "Severity", "identity_of", "lint"]
