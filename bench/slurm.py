"""A real Slurm beside us: one node of 64 pretended CPUs, from the distribution's packages, started and stopped by the benchmark."""
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.ports import free_port

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PRETENDED_CPUS = 64
START_LIMIT_S = 60
SETTINGS = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,default_queue_depth=10000
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MinJobAge=2
MaxJobCount=100000
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why Slurm cannot be had here; None if it can. As root on Debian or Ubuntu it is installed."""
    if os.geteuid() != 0:
        return "Slurm needs root"
    if not all(shutil.which(name) for name in ("slurmctld", "slurmd", "sbatch", "munged")) and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "-qq", "update"], env=quiet, check=False, capture_output=True)
        subprocess.run(["apt-get", "-qq", "install", "-y", *PACKAGES], env=quiet, check=False, capture_output=True)
    return None if shutil.which("slurmctld") and shutil.which("munged") else "Slurm's packages could not be installed"


@contextlib.contextmanager
def running_slurm() -> Iterator[dict[str, str]]:
    """The environment in which `sbatch` and `squeue` speak to it."""
    with contextlib.ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="slurm-bench-")))
        folder.chmod(0o755)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        host = socket.gethostname().split(".")[0]
        settings = SETTINGS.format(host=host, folder=folder, cpus=PRETENDED_CPUS, port=free_port(), node_port=free_port())
        (folder / "slurm.conf").write_text(settings)
        env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        undo.enter_context(munge(folder))
        for daemon in ("slurmctld", "slurmd"):
            undo.enter_context(ended([daemon, "-D", "-f", str(folder / "slurm.conf")], env, folder / f"{daemon}.out"))
        wait_until_idle(env, folder)
        yield env


@contextlib.contextmanager
def munge(folder: Path) -> Iterator[None]:
    key, home = folder / "munge.key", folder / "munge"
    key.write_bytes(os.urandom(128))
    home.mkdir()
    for path in (key, home):
        shutil.chown(path, "munge", "munge")
    key.chmod(0o600)
    os.chmod(home, 0o755)  # clients reach the socket through it
    files = [f"--{what}-file={home}/{what}" for what in ("pid", "seed", "log")]
    command = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={home}/socket", *files]
    with ended(["runuser", "-u", "munge", "--", *command], dict(os.environ), folder / "munged.out"):
        deadline = time.monotonic() + START_LIMIT_S
        while not (home / "socket").exists():
            if time.monotonic() > deadline:
                raise RuntimeError((folder / "munged.out").read_text())
            time.sleep(0.05)
        (folder / "munge.socket").symlink_to(home / "socket")
        yield


@contextlib.contextmanager
def ended(command: list[str], env: dict[str, str], out: Path) -> Iterator[None]:
    with out.open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_idle(env: dict[str, str], folder: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while "idle" not in (seen := subprocess.run(["sinfo", "-h", "-o", "%t"], env=env, capture_output=True, text=True, check=False).stdout):
        if time.monotonic() > deadline:
            raise RuntimeError(f"Slurm's node is {seen.strip() or 'not there'}: {(folder / 'slurmctld.out').read_text()[-2000:]}")
        time.sleep(0.2)


def jobs_a_second(env: dict[str, str], count: int) -> float:
    """No-op batch jobs from the first submit until none is left, submitted as fast as a shell loop can."""
    script = f"i=0; while [ $i -lt {count} ]; do sbatch -Q -o /dev/null --wrap true >/dev/null || exit 1; i=$((i+1)); done"
    began = time.monotonic()
    subprocess.run(["sh", "-c", script], env=env, check=True)
    while subprocess.run(["squeue", "-h", "-t", "PD,R,CF,CG"], env=env, capture_output=True, check=True).stdout:
        time.sleep(0.1)
    return count / (time.monotonic() - began)


def array_jobs_a_second(env: dict[str, str], count: int) -> float:
    began = time.monotonic()
    subprocess.run(["sbatch", "-Q", "-o", "/dev/null", f"--array=1-{count}", "--wrap", "true"], env=env, check=True, capture_output=True)
    while subprocess.run(["squeue", "-h", "-t", "PD,R,CF,CG"], env=env, capture_output=True, check=True).stdout:
        time.sleep(0.1)
    return count / (time.monotonic() - began)
