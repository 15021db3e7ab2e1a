"""The isolation probe as it runs in a session: on the stub driver, bare or with the share library loaded as in a container."""
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fake_cuda import Card, FakeCuda
from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from gpufairy.core.isolation import Held, Side, judged
from gpufairy.core.node import Sharing
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import Attempt
from gpufairy.core.tried import facts_from_plain, tried_from_plain
from gpufairy.engines.build_native import build
from gpufairy.engines.share_ledger import new_ledger

SOURCE = Path(__file__).parents[2] / "src"
BUILDS = SOURCE.parent / "build" / "native"
GPU, OTHER = (f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
GIB = 2**30
SHARE = 4 * GIB
LIMIT_S = 120
# A mount namespace of its own stands in for a container: its own list of libraries to load first, and its own /run.
LIKE_A_CONTAINER = """\
set -e
mount --make-rprivate /
cp -a /etc "$1/etc"
cp "$1/preload" "$1/etc/ld.so.preload"
mount --bind "$1/etc" /etc
mount -t tmpfs tmpfs /run
mkdir -p /run/fairy/share /run/fairy/ledger
cp "$1/limits" /run/fairy/share/limits
cp "$1/memory" /run/fairy/ledger/memory
shift
exec "$@"
"""


@dataclass
class ProbeScene:
    folder: Path

    def __post_init__(self):
        self.cuda = FakeCuda(self.folder, (Card(GPU, 2 * SHARE),))
        self.nvml = FakeNvml(self.folder)
        self.nvml.write(FakeMachine((FakeGpu(uuid=GPU, memory_mib=2 * SHARE // 2**20),)))
        self.native = build(BUILDS)
        self.container = self.folder / "container"

    @property
    def env(self):
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        folders = f"{self.cuda.library.parent}:{self.nvml.library.parent}"
        return {**kept, **self.cuda.env, **self.nvml.env, "LD_LIBRARY_PATH": folders, "PYTHONPATH": str(SOURCE)}

    def command(self, *options):
        probe = [sys.executable, "-m", "gpufairy.devices.probe_isolation", "--gpu", GPU, "--memory-bytes", str(SHARE)]
        return [*probe, "--static", str(self.native.probe), *options]

    def with_library(self, limits=None):
        """The command before it that makes a container of it."""
        self.container.mkdir()
        (self.container / "preload").write_text(f"{self.native.share_library}\n")
        row = f"gpu {GPU} memory_bytes={SHARE} sm_percent=50 context_bytes={256 * 2**20}"
        (self.container / "limits").write_text(f"fairyshare 1\n{row}\n" if limits is None else limits)
        new_ledger(self.container / "memory")
        return ["unshare", "--mount", "sh", "-c", LIKE_A_CONTAINER, "sh", str(self.container)]

    def said(self, *options, before=(), env=None):
        command = [*before, *self.command(*options)]
        done = subprocess.run(command, env=self.env | (env or {}), capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def attempts(self, *options, before=(), sharing=Sharing.MPS, env=None) -> dict[str, Attempt]:
        said = self.said(*options, before=before, env=env)
        assert said[-1] == {"done": True}
        facts = next((facts_from_plain(line["facts"]) for line in said if "facts" in line), None)
        tried = tuple(tried_from_plain(line) for line in said if "way" in line)
        found = judged([Side(Held(sharing, SHARE, PARTS // 2), facts, tried)])
        assert len({attempt.way for attempt in found}) == len(tried)
        return {attempt.way: attempt for attempt in found}
