"""The programs of Kubernetes, built by Go from their published modules: once a machine, and kept for the next run of the tests.

`python tests/kube/parts.py NAME …` builds those named, or all, those first that most tests wait for; ./test does so in the background.
"""
import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpufairy-tests"
WAIT_S = 1500.0  # for another who builds: API server 3 min, the rest 6 on two cores that nobody else uses
OLDEST_GO = (1, 24)  # as the modules ask; the Go of Debian 12 is 1.19
QUICK = {"GOGC": "400"}  # the compiler sweeps its memory less often
GO_FOLDERS = ("/usr/local/go/bin", "/usr/lib/go/bin")


class CannotBuild(Exception):
    """Says what is missing."""


@dataclass(frozen=True, eq=False)
class Source:
    """A module, and the programs of it by their names and packages. `stamp`: the variable that is told the version."""

    name: str
    module: str
    version: str
    programs: dict[str, str]
    tags: str = ""
    stamp: str = ""
    by_install: bool = False  # it has no replacements in its go.mod, so Go builds it without a module around it
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # folders of the module that are copied into one, by its name

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.name}-{self.version}"


# 1.34 is the newest whose kubelet still runs on cgroup version 1, and serves DRA v1.
KUBERNETES = Source(
    "kubernetes", "k8s.io/kubernetes", "1.34.4",
    {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")},
    stamp="k8s.io/component-base/version.gitVersion",
)  # fmt: skip
# With Debian's 3.4 lists by watching fail.
ETCD = Source("etcd", "go.etcd.io/etcd/server/v3", "3.6.8", {"etcd": "go.etcd.io/etcd/server/v3"})
# Debian 12's 1.6 has no CDI for pods. The file systems that take C libraries are left out.
CONTAINERD = Source(
    "containerd", "github.com/containerd/containerd/v2", "2.1.9",
    {name: f"github.com/containerd/containerd/v2/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
    tags="no_btrfs,no_devmapper,no_zfs", stamp="github.com/containerd/containerd/v2/version.Version",
)  # fmt: skip
KWOK = Source("kwok", "sigs.k8s.io/kwok", "0.7.0", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, by_install=True)
HELM = Source("helm", "helm.sh/helm/v3", "3.19.5", {"helm": "helm.sh/helm/v3/cmd/helm"}, by_install=True)
KARPENTER = Source("karpenter", "sigs.k8s.io/karpenter", "1.8.0", {"karpenter-kwok": "sigs.k8s.io/karpenter/kwok"}, by_install=True, texts={"karpenter-crds": ("pkg/apis/crds", "kwok/apis/crds")})
# Its objects' definitions alone, so that the API server knows ServiceMonitors and rules when it sees them.
MONITORS = Source("monitors", "github.com/prometheus-operator/prometheus-operator", "0.85.0", {}, by_install=True, texts={"monitor-crds": ("example/prometheus-operator-crd",)})
SOURCES = (KUBERNETES, ETCD, CONTAINERD, KWOK, HELM, KARPENTER, MONITORS)
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr")
BESIDE = ("kubectl", "helm", "monitor-crds", "kwok", "karpenter-kwok", "karpenter-crds")


def parts(names: Iterable[str], wait_s: float = WAIT_S) -> dict[str, Path]:
    """Paths by name; what is not there is built first. Raises CannotBuild."""
    wanted = {name: source_of(name) for name in names}
    paths = {name: source.folder / name for name, source in wanted.items()}
    if all(path.exists() for path in paths.values()):
        return paths
    go = found_go()
    CACHE.mkdir(parents=True, exist_ok=True)
    with one_builder(wait_s, paths.values()):
        for source in dict.fromkeys(wanted.values()):
            missing = [name for name, of in wanted.items() if of is source and not paths[name].exists()]
            if missing:
                build(go, source, missing)
    return paths


def source_of(name: str) -> Source:
    found = next((source for source in SOURCES if name in source.programs or name in source.texts), None)
    if found is None:
        raise CannotBuild(f"{name}: no such part; there are {', '.join(name for source in SOURCES for name in (*source.programs, *source.texts))}.")
    return found


def found_go() -> str:
    go = shutil.which("go", path=os.pathsep.join((os.environ.get("PATH", ""), *GO_FOLDERS)))
    if go is None:
        raise CannotBuild("no Go, which builds Kubernetes: install 1.24 or later to /usr/local/go (Debian 12's golang is too old).")
    version = run([go, "env", "GOVERSION"], Path("/")).strip()
    number = re.match(r"go(\d+)\.(\d+)", version)
    if number is None or (int(number[1]), int(number[2])) < OLDEST_GO:
        raise CannotBuild(f"{go} is {version}, and Kubernetes takes Go 1.24 or later: install one to /usr/local/go (Debian 12's is too old).")
    return go


@contextlib.contextmanager
def one_builder(wait_s: float, wanted: Iterable[Path] = ()) -> Iterator[None]:
    """Two at once would do the same work twice, on the same two cores. Whoever waits goes on when another has made all that is wanted."""
    deadline_s, paths = time.monotonic() + wait_s, list(wanted)
    with (CACHE / "kube.lock").open("a") as lock:
        while not locked(lock.fileno()) and not (paths and all(path.exists() for path in paths)):
            if time.monotonic() > deadline_s:
                raise CannotBuild(f"another has been building parts of Kubernetes for more than {wait_s:g} s; see build/kube-parts.log.")
            time.sleep(0.2)
        yield


def locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def build(go: str, source: Source, names: list[str]) -> None:
    """Under another name, then renamed: what is there is whole."""
    source.folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=CACHE) as made:
        folder = Path(made)
        (folder / "out").mkdir()
        if not source.by_install:
            write_module(go, source, folder)
        for name in names:
            said(f"building {name} {source.version}")
            if name in source.texts:
                copy_texts(go, source, source.texts[name], folder / "out" / name)
            else:
                install_or_build(go, source, source.programs[name], folder / "out" / name)
            (folder / "out" / name).replace(source.folder / name)


def copy_texts(go: str, source: Source, places: tuple[str, ...], out: Path) -> None:
    module = Path(downloaded(go, source, out.parent)["Dir"])
    for place in places:
        shutil.copytree(module / place, out, dirs_exist_ok=True, copy_function=shutil.copyfile)
    out.chmod(0o755)  # what lies in Go's own folder may not be written


def write_module(go: str, source: Source, folder: Path) -> None:
    imports = "".join(f'\t_ "{package}"\n' for package in source.programs.values())
    (folder / "go.mod").write_text(f"module tests\n\ngo 1.24.0\n\nrequire {source.module} v{source.version}\n{replacements(go, source, folder)}")
    (folder / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\nimport (\n{imports})\n")
    run([go, "mod", "tidy"], folder)


def replacements(go: str, source: Source, folder: Path) -> str:
    """Kubernetes replaces the modules that are staged in its own tree by folders; for anybody else they are published as v0.x."""
    staged = re.findall(r"(\S+) => \./staging", Path(downloaded(go, source, folder)["GoMod"]).read_text())
    return "".join(f"replace {module} => {module} v0.{source.version.partition('.')[2]}\n" for module in staged)


def downloaded(go: str, source: Source, folder: Path) -> dict[str, str]:
    """Where Go put the module, once it has it."""
    told: dict[str, str] = json.loads(run([go, "mod", "download", "-json", f"{source.module}@v{source.version}"], folder))
    return told


def install_or_build(go: str, source: Source, package: str, out: Path) -> None:
    stamp = f" -X {source.stamp}=v{source.version}" if source.stamp else ""
    options = ["-trimpath", "-tags", source.tags, "-ldflags", f"-s -w{stamp}"]
    if not source.by_install:
        run([go, "build", *options, "-o", str(out), package], out.parents[1])
        return
    run([go, "install", *options, f"{package}@v{source.version}"], out.parents[1], {"GOBIN": str(out.parent)})
    (out.parent / package.rpartition("/")[2]).replace(out)


def run(command: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=folder, env={**os.environ, **QUICK, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise CannotBuild(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
    return done.stdout


def said(words: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("name", nargs="*", help="; ".join(" ".join((*source.programs, *source.texts)) for source in SOURCES))
    try:
        for group in [asked.parse_args().name] if asked.parse_args().name else ((*CONTROL_PLANE, *NODE), *((name,) for name in BESIDE)):
            for path in parts(group).values():
                said(str(path))
    except CannotBuild as error:
        raise SystemExit(str(error)) from None
