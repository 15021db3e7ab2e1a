"""The programs of Kubernetes, built by Go from their published modules: once a machine, and kept for the next run of the tests.

All but one are built from one module (`programs/go.mod`), so that what they have in common is compiled once: in modules of their own, helm
and Karpenter would each compile another version of Kubernetes' client. kwok 0.7 takes an older client, and 0.8 a newer Go than others.
`python tests/kube/parts.py NAME …` builds those named, or all, those first that most tests wait for; `./test all` does so in the background.
"""
import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpufairy-tests"
MODULE = Path(__file__).parent / "programs"
WAIT_S = 2400.0  # for another who builds: all of it takes about 10 minutes of two cores that nobody else uses
OLDEST_GO = (1, 25)  # as the modules ask; the Go of Debian 12 is 1.19
GO_FOLDERS = ("/usr/local/go/bin", "/usr/lib/go/bin")
# The compiler sweeps its memory less often; no C, so no C compiler; the module is as it was written, whoever has a newer one.
QUICK = {"GOGC": "400", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}

# 1.34 is the newest whose kubelet still runs on cgroup version 1, and serves DRA v1.
KUBERNETES, CONTAINERD = "1.34.4", "2.2.9"
K8S, CTRD = "k8s.io/kubernetes/cmd", "github.com/containerd/containerd/v2"
PROGRAMS = {
    # With Debian's 3.4 lists by watching fail.
    "etcd": "go.etcd.io/etcd/server/v3",
    **{name: f"{K8S}/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")},
    # Debian 12's 1.6 has no CDI for pods.
    **{name: f"{CTRD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
    "helm": "helm.sh/helm/v3/cmd/helm",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "karpenter-kwok": "sigs.k8s.io/karpenter/kwok",
}  # fmt: skip
# Folders of modules that are copied into one: definitions of objects, so that the API server knows them when it sees them.
TEXTS = {
    "karpenter-crds": ("sigs.k8s.io/karpenter@v1.8.0", ("pkg/apis/crds", "kwok/apis/crds")),
    "monitor-crds": ("github.com/prometheus-operator/prometheus-operator@v0.85.0", ("example/prometheus-operator-crd",)),
}
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr")
BESIDE = ("kubectl", "helm", "monitor-crds", "kwok", "karpenter-kwok", "karpenter-crds")
# Without what only a debugger reads, and without file systems that take C libraries. Programs say their own version when asked.
OPTIONS = (
    "-trimpath", "-tags=no_btrfs,no_devmapper,no_zfs", "-gcflags=all=-dwarf=false",
    f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES} -X {CTRD}/version.Version=v{CONTAINERD}",
)  # fmt: skip


class CannotBuild(Exception):
    """Says what is missing."""


def folder_of_parts() -> Path:
    """Named by all that decides what is built: another version is another folder."""
    made_of = [path.read_bytes() for path in sorted(MODULE.rglob("go.*"))]
    return CACHE / f"kubernetes-{KUBERNETES}-{hashlib.sha256(b''.join(made_of) + repr((OPTIONS, TEXTS)).encode()).hexdigest()[:12]}"


def parts(names: Iterable[str], wait_s: float = WAIT_S) -> dict[str, Path]:
    """Paths by name; what is not there is built first. Raises CannotBuild."""
    wanted, folder = list(names), folder_of_parts()
    if unknown := [name for name in wanted if name not in PROGRAMS and name not in TEXTS]:
        raise CannotBuild(f"{unknown[0]}: no such part; there are {', '.join((*PROGRAMS, *TEXTS))}.")
    paths = {name: folder / name for name in wanted}
    if all(path.exists() for path in paths.values()):
        return paths
    go = find_go()
    folder.mkdir(parents=True, exist_ok=True)
    with one_builder(wait_s, paths.values()):
        build(go, [name for name, path in paths.items() if not path.exists()], folder)
    return paths


def find_go() -> str:
    go = shutil.which("go", path=os.pathsep.join((os.environ.get("PATH", ""), *GO_FOLDERS)))
    if go is None:
        raise CannotBuild("no Go, which builds Kubernetes: install 1.25 or later to /usr/local/go (Debian 12's golang is too old).")
    version = run([go, "env", "GOVERSION"], Path("/")).strip()
    number = re.match(r"go(\d+)\.(\d+)", version)
    if number is None or (int(number[1]), int(number[2])) < OLDEST_GO:
        raise CannotBuild(f"{go} is {version}, and Kubernetes takes Go 1.25 or later: install one to /usr/local/go (Debian 12's is too old).")
    return go


@contextlib.contextmanager
def one_builder(wait_s: float, wanted: Iterable[Path] = ()) -> Iterator[None]:
    """Two at once would do the same work twice, on the same two cores. Whoever waits goes on when another has made all that is wanted."""
    deadline_s, paths = time.monotonic() + wait_s, list(wanted)
    with (CACHE / "kube.lock").open("a") as lock, uncounted_time():
        while not has_locked(lock.fileno()) and not (paths and all(path.exists() for path in paths)):
            if time.monotonic() > deadline_s:
                raise CannotBuild(f"another has been building parts of Kubernetes for more than {wait_s:g} s; see build/kube-parts.log.")
            time.sleep(0.2)
        yield


@contextlib.contextmanager
def uncounted_time() -> Iterator[None]:
    """The timer that ends a test which hangs stands still: that its programs are being built is no fault of the test's."""
    left_s, _ = signal.getitimer(signal.ITIMER_REAL)
    if left_s:
        signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left_s:
            signal.setitimer(signal.ITIMER_REAL, left_s)


def has_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def build(go: str, names: list[str], folder: Path) -> None:
    """Under another name, then renamed: what is there is whole."""
    for name in names:
        say(f"building {name}")
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as made:
            out = Path(made) / name
            if name in TEXTS:
                copy_texts(go, *TEXTS[name], out)
            else:
                run([go, "build", *OPTIONS, "-o", str(out), PROGRAMS[name]], MODULE / name if (MODULE / name).exists() else MODULE)
            out.replace(folder / name)


def copy_texts(go: str, module: str, places: tuple[str, ...], out: Path) -> None:
    fetched = Path(json.loads(run([go, "mod", "download", "-json", module], out.parent))["Dir"])
    for place in places:
        shutil.copytree(fetched / place, out, dirs_exist_ok=True, copy_function=shutil.copyfile)
    out.chmod(0o755)  # what lies in Go's own folder may not be written


def run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **QUICK}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise CannotBuild(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
    return done.stdout


def say(words: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {words}\n")
    sys.stderr.flush()


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("name", nargs="*", help=" ".join((*PROGRAMS, *TEXTS)))
    asked = words.parse_args().name or (*CONTROL_PLANE, *NODE, *BESIDE)
    try:
        for name in asked:
            say(str(parts([name])[name]))
    except CannotBuild as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
