"""Build kube-apiserver, etcd, kubectl, kube-controller-manager, kube-scheduler, kwok and helm for the tier `kube`.

The Go modules next to this file build them from source, which needs only a module proxy; go.sum pins the source. The
programs are in a folder outside the checkout, named by a hash of the recipe, which is renamed when it is complete.

    python tests/kube/tools/build.py      # builds what is missing; the last line is the folder of the programs
"""

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))  # also works as a script, without pytest's paths

from rigs.kube_tools import ASSETS, LATEST, cache  # noqa: E402

NO_GO = (
    f"the Go toolchain is missing: install Go 1.26 or newer, or set {ASSETS} to a folder with the programs"
)
BUILD_FAILED = "{program} could not be built: {command} ended with {status}"
MODULE_MISSING = "{file} requires no {module}"
UNFINISHED = ".unfinished"


class BuildError(Exception):
    """The programs cannot be built; the message has the reason."""


class NoGoError(BuildError):
    pass


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    package: str
    folder: str
    """Folder of the Go module that requires the package."""
    module: str
    """The module whose version is that of the program."""
    stamped: str = ""
    """Go package whose version variables the linker sets; unset ones are v0.0.0."""

    def version(self, *, modules: Path) -> str:
        file = modules / self.folder / "go.mod"
        match = re.search(rf"\b{re.escape(self.module)} (v\S+)", file.read_text(encoding="utf-8"))
        if match is None:
            raise BuildError(MODULE_MISSING.format(file=file, module=self.module))
        return match[1]

    def arguments(self, *, modules: Path) -> list[str]:
        """Arguments of `go build`, without the output."""
        linker = ["-s", "-w"]
        if self.stamped:
            version = self.version(modules=modules)
            major, minor, _ = version.removeprefix("v").split(".", 2)
            variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
            linker += [f"-X {self.stamped}.{variable}={value}" for variable, value in variables.items()]
        return ["-trimpath", "-buildvcs=false", "-mod=readonly", f"-ldflags={' '.join(linker)}", self.package]


@dataclass(frozen=True, slots=True)
class Extra:
    """A file of a module that a program needs at run time."""

    folder: str
    module: str
    path: str


KUBERNETES = "k8s.io/kubernetes"
KWOK = "sigs.k8s.io/kwok"
HELM = "helm.sh/helm/v3"
ETCD = "go.etcd.io/etcd/server/v3"
# The smallest first: a machine that can't build fails early.
PROGRAMS = (
    Program("etcd", ETCD, "etcd", ETCD),
    *(
        Program(name, f"{KUBERNETES}/cmd/{name}", "kubernetes", KUBERNETES, "k8s.io/component-base/version")
        for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
    ),
    # Its module requires the Kubernetes packages of kubectl's release, so that Go compiles them once.
    Program("helm", f"{HELM}/cmd/helm", "helm", HELM),
    Program("kwok", f"{KWOK}/cmd/kwok", "kwok", KWOK),
)
# kwok does nothing without stages. The last one removes deleted pods, as a kubelet does.
EXTRAS = tuple(
    Extra("kwok", KWOK, f"kustomize/stage/{path}.yaml")
    for path in ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")
)
SETTINGS = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


def stamp(*, modules: Path = HERE) -> str:
    """A hash of sources and arguments; another one is another folder."""
    recipe = {
        "programs": {program.name: program.arguments(modules=modules) for program in PROGRAMS},
        "extras": [extra.path for extra in EXTRAS],
        "settings": SETTINGS,
        "machine": [platform.system(), platform.machine()],
    }
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode())
    for folder in sorted({program.folder for program in PROGRAMS}):
        for name in ("go.mod", "go.sum"):
            digest.update((modules / folder / name).read_bytes())
    kubernetes = next(program for program in PROGRAMS if program.module == KUBERNETES)
    return f"{kubernetes.version(modules=modules)}-{digest.hexdigest()[:12]}"


def built(*, modules: Path = HERE, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the finished programs of this checkout."""
    folder = cache(environ) / stamp(modules=modules) / "bin"
    return folder if folder.is_dir() else None


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Allow one build at a time. The kernel releases the lock of a killed build."""
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def say(line: str) -> None:
    # Standard output has only the folder, for callers.
    print(f"==> {line}", file=sys.stderr, flush=True)


def spent(since: float) -> str:
    minutes, seconds = divmod(round(time.monotonic() - since), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


@dataclass(frozen=True, slots=True)
class Go:
    path: str
    modules: Path
    environ: Mapping[str, str]

    def run(self, *arguments: str, folder: str, why: str) -> str:
        command = [self.path, *arguments]
        # Leave the processor to other programs.
        nice = shutil.which("nice", path=self.environ.get("PATH"))
        run = subprocess.run(
            [nice, *command] if nice else command,
            cwd=self.modules / folder,
            env={**self.environ, **SETTINGS},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if run.returncode:
            raise BuildError(
                BUILD_FAILED.format(program=why, command=" ".join(command), status=run.returncode)
            )
        return run.stdout.strip()


def build(*, modules: Path = HERE, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the programs, and build it if it is missing."""
    root, name = cache(environ), stamp(modules=modules)
    folder = built(modules=modules, environ=environ)
    if folder is not None:
        point(root, name)
        return folder
    path = shutil.which("go", path=environ.get("PATH"))
    if path is None:
        raise NoGoError(NO_GO)
    go = Go(path, modules, environ)
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / f"{name}.lock"):
        for left in root.glob(f"{name}.*{UNFINISHED}"):
            shutil.rmtree(left, ignore_errors=True)
        if folder := built(modules=modules, environ=environ):
            point(root, name)
            return folder
        # A unique name: the compiler of a killed build may still write to another folder.
        unfinished = Path(tempfile.mkdtemp(dir=root, prefix=f"{name}.", suffix=UNFINISHED))
        unfinished.chmod(0o755)
        (unfinished / "bin").mkdir()
        say(f"building {len(PROGRAMS)} programs into {root / name} (once; some minutes)")
        start = time.monotonic()
        for program in PROGRAMS:
            compile_program(go, program, unfinished / "bin")
        for extra in EXTRAS:
            source = go.run("list", "-m", "-f", "{{.Dir}}", extra.module, folder=extra.folder, why=extra.path)
            shutil.copyfile(Path(source) / extra.path, unfinished / "bin" / Path(extra.path).name)
        unfinished.rename(root / name)
        point(root, name)
        say(f"built in {spent(start)}")
    return root / name / "bin"


def compile_program(go: Go, program: Program, folder: Path) -> None:
    begun = time.monotonic()
    arguments = program.arguments(modules=go.modules)
    go.run("build", "-o", str(folder / program.name), *arguments, folder=program.folder, why=program.name)
    say(f"{program.name} {program.version(modules=go.modules)} ({spent(begun)})")


def point(root: Path, name: str) -> None:
    """Link the latest build for users of other checkouts, such as benchmarks."""
    link = root / f"{LATEST}.{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    link.replace(root / LATEST)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the programs that tests of the tier kube start.")
    parser.add_argument(
        "--optional",
        action="store_true",
        help="without Go, say so and succeed, unless the environment says CI",
    )
    options = parser.parse_args(arguments)
    if assets := os.environ.get(ASSETS):
        say(f"{ASSETS} is set: nothing is built")
        print(assets)
        return 0
    try:
        print(build())
    except BuildError as error:
        say(str(error))
        return 0 if isinstance(error, NoGoError) and options.optional and not os.environ.get("CI") else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
