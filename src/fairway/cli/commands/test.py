"""Declaration of `fairway test`: its options and its help."""

import click

from fairway.cli.lazy import runs
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option


@click.command(
    short_help="Test placements against expected decisions.",
    epilog="""\b
Examples:
  fairway test examples/tests
  fairway test tests/placements.yaml --junit report.xml

\b
A test file has a PlacementTest: files with a fleet and placements, named relative to the test file, and what the
decision of a placement must be. Objects in the test file itself belong to the fleet, too.

\b
  apiVersion: fairway.dev/v1alpha1
  kind: PlacementTest
  spec:
    files: [fleet/]                       # files or directories
    now: 2026-01-02T10:00:00Z             # the time of the decisions; default: now
    tests:
    - name: the batch stays in gold clusters
      placement: ns1/batch
      drain: [apps-fra]                   # changes before the decision, as in a plan:
      lose: [region=eu-central]           # drain, lose, setWeight, addClusters
      expect:
        clusters: [apps-iad, apps-sin]    # exactly these, in any order
        includes: [apps-iad]              # at least these
        excludes: [apps-fra]              # none of these
        count: 2
        satisfied: true
        reasons: {apps-fra: "rejected by TaintToleration"}   # a part of the reason in fairway plan

\b
Exit status: 0 all tests pass, 1 a test fails, 2 bad input.
""",
)
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...")
@click.option("--junit", type=click.Path(), metavar="FILE", help="Write a report in JUnit's XML format.")
@scheduler_option
@output_option
@runs("fairway.cli.test.run:test")
def test() -> None:
    """Decide placements of files, and compare with what tests expect. Needs no hub."""
