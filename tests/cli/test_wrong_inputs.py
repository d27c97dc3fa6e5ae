"""Wrong inputs of every command: each ends with its exit code and a message that says what is wrong, and what to do."""

import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest

from cli.live_hub import EXAMPLE, ROOT, fill
from fairway.cli.main import fairway, run
from fairway.testing.hub import hub_in_thread

PLACEMENT_TEST: Final = (
    "apiVersion: fairway.dev/v1alpha1\nkind: PlacementTest\nspec:\n  files: [FLEET]\n  tests:\n  - {%s}\n"
)
FILES: Final = {
    "misspelt.yaml": PLACEMENT_TEST % "placement: ns1/idlest, expect: {cluster: [apps-fra]}",
    "expects-nothing.yaml": PLACEMENT_TEST % "placement: ns1/idlest, expect: {}",
    "unknown.yaml": PLACEMENT_TEST % "placement: ns1/idle, expect: {count: 1}",
    "good.yaml": PLACEMENT_TEST % "placement: ns1/idlest, expect: {count: 1}",
    "empty.yaml": "",
    "text.yaml": "just text\n",
    "tabs.yaml": "a:\n\tb: 1\n",
    "twice.yaml": "apiVersion: v1\nkind: A\nkind: B\n",
    "binary.yaml": "\x00\x01\x02",
    "nameless.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: ns1}\n",
    "many.yaml": (
        "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n"
        "metadata: {name: p, namespace: ns1}\nspec: {numberOfClusters: many}\n"
    ),
    "v9.yaml": "apiVersion: cluster.open-cluster-management.io/v9\nkind: Placement\nmetadata: {name: p}\n",
    "odd.yaml": "apiVersion: odd.dev/v1\nkind: Odd\nmetadata: {name: odd}\n",
    "giant.yaml": (
        "apiVersion: placement.fairway.dev/v1alpha1\nkind: HostedClusterRequest\nmetadata: {name: r, namespace: ns1}\n"
        "spec: {size: giant, hostedCluster: {spec: {platform: {type: None}}}}\n"
    ),
    "both.yaml": (
        "apiVersion: placement.fairway.dev/v1alpha1\nkind: HostedClusterRequest\nmetadata: {name: r, namespace: ns1}\n"
        "spec: {size: small, demand: {cpu: 1, memory: 1Gi}, hostedCluster: {spec: {}}}\n"
    ),
    "number.kubeconfig": "apiVersion: v1\nkind: Config\nclusters: 3\n",
    "no-context.kubeconfig": "apiVersion: v1\nkind: Config\n",
    "closed.kubeconfig": (
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: x}}]\n"
    ),
    "profiles.yaml": "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\nprofiles: 3\n",
    "plugin.yaml": (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {score: {enabled: [{name: Nope}]}}}]\n"
    ),
    "exits.py": "raise SystemExit(3)\n",
    "nothing.py": "x = 1\n",
    "syntax.py": "def f(:\n",
    "words.csv": "seconds,name\nsoon,a\n",
    "columns.csv": "name\na\n",
}
WITHOUT_HUB: Final = r"""
=> Usage:
nosuch => No such command 'nosuch'
explian => Did you mean 'explain'?
--nosuch => No such option '--nosuch'
accept => no cluster named; for example: fairway accept c1 c2
accept c1 => no kubeconfig found; set --kubeconfig or KUBECONFIG
accept c1 --clusters , => --clusters: empty name
accept c1 --timeout 5 => --timeout requires --wait
accept c1 --wait --dry-run => omit one of them
accept c1 --kubeconfig none => none: does not exist; check the path
accept c1 --kubeconfig number.kubeconfig => clusters: is not a kubeconfig: Expected `array`, got `str`
accept c1 --kubeconfig no-context.kubeconfig => choose one with "kubectl config use-context"
accept c1 --kubeconfig closed.kubeconfig --context b => there is no context 'b'; there are a
addon instal => Did you mean one of: 'install', 'uninstall'?
addon install nosuch => unknown add-on 'nosuch'; known: resource-usage
addon install resource-usage --set X => 'X' is not a setting; write NAME=VALUE
addon install resource-usage --set SCORE_FLOOR=a => SCORE_FLOOR: 'a' is not a valid floor: write 0, or -100
addon status nosuch => known: resource-usage
addon uninstall resource-usage --timeout -1 => '--timeout': -1.0 is not in the range
agent run => Missing option '--hub-kubeconfig'
agent run --cluster-name c1 --hub-kubeconfig none => none: does not exist; check the path
apply => Missing option '-f'
apply -f none => none: no such file or directory; check the path given to -f
apply -f empty.yaml => is empty; name a file with at least one Kubernetes object
apply -f text.yaml => text.yaml:1: not a Kubernetes object: apiVersion, kind and metadata.name are required
apply -f nameless.yaml => nameless.yaml:1: not a Kubernetes object
apply -f tabs.yaml => tabs.yaml:2: cannot parse as YAML: tab in the indentation (column 1); indent with
apply -f many.yaml => no kubeconfig found; set --kubeconfig or KUBECONFIG
clusterset bind => Missing argument 'SET'
clusterset set apps => no cluster named; for example: --clusters a,b
clusterset set apps --clusters a,,b => --clusters: empty name; separate names by one comma
clusterset unbind apps => no kubeconfig found; set --kubeconfig or KUBECONFIG
completion tcsh => 'tcsh' is not one of 'bash', 'zsh', 'fish'
conformance none => none: cannot be read: No such file or directory
conformance text.yaml => text.yaml:1: not a JSON object
crds nosuch => unknown kind 'nosuch'; known: managedclusters,
crds -o xml => 'xml' is not one of 'yaml', 'json', 'table', 'wide'
explain => Missing argument
explain placement => no placement named; write: fairway explain placement NS/NAME
explain pod a/b -f FLEET => cannot explain kind 'pod'; write: fairway explain placement NS/NAME
explain placement ns1/idle -f FLEET => placement ns1/idle not found; did you mean ns1/idlest?
explain placement ns1/idlest -f FLEET --cluster x => cluster x not found; known: apps-fra, apps-iad
explain placement ns1/idlest -f FLEET --now noon => 'noon' is not a time; write for example 2026-01-01T
explain placement ns1/idlest -f FLEET --watch => --watch requires a hub; with -f, add --hub
explain placement ns1/idlest => no input: name files with -f, or a hub with --kubeconfig
fleet generate --clusters -1 => -1 is not in the range
fleet generate --clusters 1 --out none/fleet.json => cannot write none/fleet.json: No such file or directory
fleet show => Missing option '-f'
fleet show -f many.yaml => many.yaml:4: Placement ns1/p: spec.numberOfClusters: is the text "many", must be
fleet show -f v9.yaml => v9.yaml:1: Placement p: apiVersion: Placement has no version
fleet show -f binary.yaml => looks like binary data, not YAML or JSON; name a YAML or JSON file
fleet show -f twice.yaml => twice.yaml:3: cannot parse as YAML: duplicate key 'kind' (column 1); remove one
fleet show -f FLEET --max-file-size 3Q => '3Q' is not a size; write a number with KiB, MiB or GiB
fleet show -f FLEET --max-file-size 1 => raise the limit with --max-file-size
fleet apply -f empty.yaml => empty.yaml: is empty
fleet delete -f FLEET --timeout 3 => --timeout requires --wait
get nosuch => No such kind 'nosuch'; known: clusters,
get cluster c1 -l a=b => give either names or -l, not both
get clustersets => no kubeconfig found; set --kubeconfig or KUBECONFIG
get placements -n NS1 => 'NS1' is not a valid namespace name; use lower-case letters, digits and '-'
get placements -n ns1 -A => give either -n or -A, not both
get decisions --output-watch-events => --output-watch-events requires --watch
get scores --cluster a_b => 'a_b' is not a valid namespace name; use
get providers --watch -o json => --watch requires -o table or -o wide
get hostedclusterrequests -A --kubeconfig closed.kubeconfig => cannot reach https://127.0.0.1:1
history ns1/idlest => Missing option '--history' (env var: 'FAIRWAY_HISTORY')
history --history none => there is no history in none (No such file or directory); the controllers write it where
history --history FLEET --since soon => 'soon' is neither a time nor a duration; write for example 2026-01-01T00:00:00Z
hosting simulate => No such command 'simulate'
hosting capacity -f HOSTS --now never => 'never' is not a time
hosting place -f HOSTS => no HostedClusterRequest to place; name a file with one with -f
hosting place -f HOSTS -f both.yaml => both.yaml:4: HostedClusterRequest ns1/r: spec: size and demand are both
hosting drain host-9 -f HOSTS => there is no hosting cluster 'host-9'; hosting clusters: host-1, host-2, host-3
hosting drain host-1 -f HOSTS --apply 3bdfe398de8c => --apply writes to a hub: leave out -f
hosting adopt host-9 -f HOSTS => there is no hosting cluster 'host-9'; hosting clusters: host-1, host-2, host-3
hosting lose host-9 -f HOSTS => there is no hosting cluster 'host-9'; hosting clusters: host-1, host-2, host-3
hosting rebalance -f HOSTS --apply x => --apply writes to a hub: leave out -f
hosting explain shop => 'shop' is not a request; write NAMESPACE/NAME
hosting delete a/b/c => 'a/b/c' is not a request; write NAMESPACE/NAME
hosting recover host-9 -f HOSTS => there is no hosting cluster 'host-9'
hosting recover host-1 -f HOSTS =1> nothing to recover; to empty it, use: fairway hosting drain host-1
hub --port 99999 => 99999 is not in the range
hub --data text.yaml/x --port 0 => cannot write text.yaml/x: Not a directory
hub --data hub --port 0 --host nosuch.invalid => cannot listen on nosuch.invalid: not an address of this machine
hub --data hub --port 0 --kubeconfig-out none/x => create it, or name a file in another folder
hub backup --data FLEET --out none/x => create it, or name a file in another folder
hub backup --data none => Directory 'none' does not exist
hub check none => 'none' does not exist
hub restore text.yaml --data restored => is not a hub backup, or its first bytes are damaged
hub renew-pki --data none => Directory 'none' does not exist
install --mode nosuch => 'nosuch' is not one of 'standalone', 'ocm', 'shadow'
install --controllers nosuch => unknown controller 'nosuch'; known: placement,
join --name c1 => no kubeconfig of the joining cluster found; set --kubeconfig or KUBECONFIG
join token --hours 0 => 0 is not in the range
join leave => Missing option '--name'
join forget c1 => no kubeconfig found; set --kubeconfig or KUBECONFIG
lint => no input: name files with -f, or a hub
lint -f FLEET --rule nosuch => unknown rule 'nosuch'; list the rules with fairway lint --list-rules
machines explain pod web -f NODES => 'web' is not NAMESPACE/NAME
machines explain pod ns1/web -f FLEET => no Node in the input; name a file with nodes with -f
machines migrations --vm x -f FLEET => no Node in the input
machines top --watch -f NODES => --watch follows a hub: leave out -f
machines top --watch -o json => --watch requires -o table
machines simulate --nodes 1 => 1 is not in the range
place -f FLEET --placement ns1/idles => did you mean ns1/idlest?
place -f FLEET --scheduler-config none => none: cannot be read (No such file or directory); check the path
place -f FLEET --scheduler-config text.yaml => text.yaml:1: expected a mapping; got 'just text'
place -f odd.yaml => odd.yaml: contains no object of a kind that Fairway uses; name files with
plan =1> no change to plan; name one with -f, --drain, --lose, --set-weight or --add-clusters
plan --nosuch =1> No such option '--nosuch'
plan --drain apps-fra =1> no fleet: name a hub with --kubeconfig or KUBECONFIG, or files with --fleet
plan --drain apps-fra --fleet FLEET --context b =1> leave out --kubeconfig and --context
plan --drain apps --fleet FLEET =1> cluster apps not found; did you mean apps-
plan --lose region= --fleet none =1> none: no such file or directory
plan --lose 'a in' --fleet FLEET =1> 'a in' is not a label selector: unable to parse
plan --lose region=mars --fleet FLEET =1> no cluster has the labels region=mars
plan --set-weight ns1/idlest=3 --fleet FLEET =1> 'ns1/idlest=3' is not a weight; write NS/NAME:PRIORITIZER=WEIGHT
plan --set-weight ns1/idlest:Steady=11 --fleet FLEET =1> a weight must be between -10 and 10
plan --set-weight ns1/idle:Steady=1 --fleet FLEET =1> placement ns1/idle not found; did you mean ns1/idlest?
plan --add-clusters -1 =1> -1 is not in the range
plan --add-clusters 1 --fleet many.yaml =1> many.yaml:4: Placement ns1/p: spec.numberOfClusters
plan -f many.yaml --fleet FLEET =1> many.yaml:4: Placement ns1/p: spec.numberOfClusters
provider list nosuch => Got unexpected extra argument
provider run none.py => there is no file none.py; check the path
provider run nothing.py => nothing.py has no provider; put @provider(...) above a function
provider run syntax.py => syntax.py:1: invalid Python
provider run exits.py => exits.py:1: running it failed: SystemExit: 3
provider cleanup x => no kubeconfig found; set --kubeconfig or KUBECONFIG
replay --history FLEET => name a record by its ID, or replay all with --all
run --controllers -placement,nosuch => unknown controller 'nosuch'; known: placement,
run --permit-address :8443 => --permit-address requires the controller 'machines': add --controllers=+machines
run --shard 3/2 => '3/2' is not a shard; write it like 0/3
run --lease-duration 1 => 1 is not in the range 3<=x<=300
run --metrics-address nonsense => write HOST:PORT, [HOST]:PORT or :PORT for all, or 'off'
scheduler check profiles.yaml => profiles.yaml:3: profiles: expected a list; got 3
scheduler check plugin.yaml => unknown plugin 'Nope'; `fairway scheduler plugins` lists the plugins
scheduler plugins --nosuch => No such option '--nosuch'
simulate pods => No such command 'pods'
simulate hosting --trace words.csv => line 2: seconds must be a number of seconds from 0 to
simulate hosting --trace columns.csv => the first line must name the columns; write seconds,name,size
simulate hosting --trace words.csv --mix => --trace has its own arrivals: leave out --requests
simulate hosting --policy nosuch => there is no policy 'nosuch'; write one of spread, pack, placement
simulate machines --nodes 2 --minutes 0 => 0 is not in the range
test => Missing argument 'FILE|DIR...'
test none => none: no such file or directory
test FLEET => FLEET: contains no PlacementTest; see fairway test --help
test misspelt.yaml => misspelt.yaml:6: PlacementTest: spec.tests[0].expect: Object contains unknown field `cluster`
test expects-nothing.yaml => expects nothing, so that it always passes; set clusters, includes,
test unknown.yaml => unknown.yaml:6: ns1/idle: placement ns1/idle not found; did you mean ns1/idlest?
test good.yaml --junit none/x => cannot write none/x: No such file or directory
uninstall => no kubeconfig found; set --kubeconfig or KUBECONFIG
up --clusters -1 => -1 is not in the range
up --data text.yaml --port 0 => 'text.yaml' is a file
up --auto-approve-user '' => a user name must not be empty, and must not contain spaces; got ''
why => Missing argument
why ns1/idlest --history none => there is no history in none
why ns1/idlest --history FLEET --at noon => 'noon' is not a time; write for example 2026-01-01T00:00:00Z
"""
WITH_HUB: Final = r"""
accept edge => cluster edge not found; known: apps-fra, apps-iad, apps-sin
apply -f many.yaml -f odd.yaml => many.yaml:1: placement.cluster.open-cluster-management.io/p:
apply -f many.yaml -f odd.yaml => odd.yaml:1: odd.odd.dev/odd: the hub does not serve kind Odd of odd.dev/v1; install
clusterset bind nosuch -n ns1 => cluster set nosuch not found
clusterset bind apps -n ns9 => namespace ns9 not found; did you mean ns1?
clusterset set apps --clusters apps => cluster apps not found; did you mean apps-
get clusters apps => cluster apps not found; did you mean apps-
get clusters --clusterset nosuch => cluster set nosuch not found
get clusters -l 'a in' => -l 'a in' is not a label selector: unable to parse
get decisions nosuch -n ns1 => nosuch not found
get scores --cluster nosuch => cluster nosuch not found; known: apps-fra
get providers nosuch => nosuch
explain placement ns1/idle => did you mean ns1/idlest?
explain hostedclusterrequest ns1/shop => list them with: fairway get hostedclusterrequests -A
hosting rebalance --apply 3bdfe398de8 => '3bdfe398de8' is not the hash of a plan: write the 12 digits
hosting rebalance --apply 3bdfe398de8c =1> the current plan has no moves: there is nothing to approve
hosting delete ns1/shop => there is no HostedClusterRequest ns1/shop
join forget nosuch => namespace of a cluster nosuch not found
join token --out none/x => none; create it, or name a file in another folder
addon status resource-usage =1> fairway addon install resource-usage
machines top -W => no Node
"""


def cases(table: str) -> list[Any]:
    """Return command, exit code and a part of the message of each line: ``=>`` is exit code 2, ``=1>`` is 1."""
    parts = [re.split(r" ?=(1?)> ", line, maxsplit=1) for line in table.strip().splitlines()]
    return [pytest.param(line, int(code or 2), message, id=line) for line, code, message in parts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "FLEET").symlink_to(EXAMPLE)
    (folder / "HOSTS").symlink_to(ROOT / "examples" / "hosting" / "hosts.yaml")
    (folder / "NODES").symlink_to(ROOT / "examples" / "machines")
    return folder


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in the folder, without a kubeconfig and with an empty standard input."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("FAIRWAY_DEBUG", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return folder


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with hub_in_thread(folder=tmp_path_factory.mktemp("hub")) as hub:
        fill(hub.kubeconfig, paths=[EXAMPLE])
        yield hub.kubeconfig


def check(line: str, code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    ended = run(shlex.split(line))
    out, err = capsys.readouterr()
    assert message in err
    assert ended == code
    assert "Traceback" not in err
    assert "internal error" not in err
    assert code == 1 or not out


@pytest.mark.parametrize(("line", "code", "message"), cases(WITHOUT_HUB))
@pytest.mark.usefixtures("inside")
def test_wrong_input_ends_with_a_remedy(
    line: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check(line, code, message, capsys)


@pytest.mark.parametrize(("line", "code", "message"), cases(WITH_HUB))
@pytest.mark.usefixtures("inside")
def test_wrong_input_for_a_hub_ends_with_a_remedy(
    line: str,
    code: int,
    message: str,
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    check(line, code, message, capsys)


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that run, with their names."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from leaves(inner, (*path, name))
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(path), command


COMMANDS: Final = dict(leaves(fairway, ()))


def test_list_of_wrong_inputs_covers_every_command() -> None:
    lines = (WITHOUT_HUB + WITH_HUB).splitlines()
    assert [name for name in COMMANDS if not any(line.startswith(f"{name} ") for line in lines)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_and_an_output_format(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*name.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert ("Examples:" in out, err) == (True, "")
    formats = {
        choice
        for option in COMMANDS[name].params
        if "--output" in option.opts and isinstance(option.type, click.Choice)
        for choice in option.type.choices
    }
    # These run until they are stopped, or print a script.
    if name not in ("agent run", "completion", "join", "run"):
        assert formats >= ({"yaml", "json"} if name == "fleet generate" else {"table", "yaml", "json"})
