"""Into a session by ssh, scp and sftp, beside a plain sshd on the same machine, interleaved; and a thousand held logins."""
import os
import statistics
import subprocess
import time
from pathlib import Path

from bench.figures import Figure, Report
from bench.lab import Lab, lab
from bench.ssh_clients import Held, hold_logins

GIB = 2**30
LOGINS = 20
COPIES = 5  # each way and program: the machine is shared, and three were seen to differ by a fifth
HELD = 1000


def measure() -> Report:
    with lab() as here:
        subprocess.run(here.ssh("true"), check=True, capture_output=True)  # starts the session
        login = both(lambda plain: timed(here.ssh("true", plain=plain)), LOGINS)
        big = here.key.parent / "big"
        fill(big, here)
        copies = {name: both(lambda plain, act=act: act(here, big, plain), COPIES) for name, act in COPY.items()}
        held = hold_logins(here, HELD)
    return Report("ssh", [login_figure(login), *(copy_figure(name, taken) for name, taken in copies.items()), *held_figures(held)])


def both(act, rounds: int) -> tuple[float, float]:
    """Medians in seconds: through the gateway into the container, and by the plain sshd."""
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(act(False))
        theirs.append(act(True))
    return statistics.median(ours), statistics.median(theirs)


def timed(command: list[str], **streams: object) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **streams})
    return time.monotonic() - began


def fill(big: Path, here: Lab) -> None:
    """1 GiB that does not compress, in memory on every side, so that no disk is measured."""
    shm = Path("/dev/shm/fairy-bench")
    chunk = os.urandom(2**24)
    with shm.open("wb") as file:
        for _ in range(GIB // len(chunk)):
            file.write(chunk)
    big.symlink_to(shm)
    with shm.open("rb") as file:
        subprocess.run(here.ssh("cat > /home/kim/big"), stdin=file, check=True)


def ssh_down(here: Lab, big: Path, plain: bool) -> float:
    return timed(here.ssh(f"cat {big if plain else '/home/kim/big'}", plain=plain))


def ssh_up(here: Lab, big: Path, plain: bool) -> float:
    with big.open("rb") as file:
        return timed(here.ssh("cat > /dev/null", plain=plain), stdin=file)


def scp_down(here: Lab, big: Path, plain: bool) -> float:
    return timed([*here.copy("scp", plain), f"{here.where(plain)}:{big if plain else '/home/kim/big'}", "/dev/null"])


def scp_up(here: Lab, big: Path, plain: bool) -> float:
    return timed([*here.copy("scp", plain), str(big.resolve()), f"{here.where(plain)}:/dev/null"])


def sftp_down(here: Lab, big: Path, plain: bool) -> float:
    return sftp(here, plain, f"get {big if plain else '/home/kim/big'} /dev/null")


def sftp_up(here: Lab, big: Path, plain: bool) -> float:
    return sftp(here, plain, f"put {big.resolve()} /dev/null")


def sftp(here: Lab, plain: bool, line: str) -> float:
    began = time.monotonic()
    subprocess.run([*here.copy("sftp", plain), "-b", "-", here.where(plain)], input=line.encode(), check=True, capture_output=True)
    return time.monotonic() - began


COPY = {"ssh cat down": ssh_down, "ssh cat up": ssh_up, "scp down": scp_down, "scp up": scp_up, "sftp get": sftp_down, "sftp put": sftp_up}


def login_figure(login: tuple[float, float]) -> Figure:
    ours, theirs = login
    return Figure(
        f"ssh true on a running session, median of {LOGINS}", ours * 1000, "ms", goal=theirs * 1000, higher_is_better=False, peer="sshd",
        peer_value=theirs * 1000,
    )  # fmt: skip


def copy_figure(name: str, taken: tuple[float, float]) -> Figure:
    ours, theirs = (GIB / 1e6 / seconds for seconds in taken)
    return Figure(f"{name} of 1 GiB", ours, "MB/s", goal=0.9 * theirs, peer="sshd", peer_value=theirs)


def held_figures(held: Held) -> list[Figure]:
    return [
        Figure(f"{held.logins} held logins, made in", held.made_s, "s", goal=10, higher_is_better=False),
        Figure("one of them, p99", held.p99_s, "s", goal=1, higher_is_better=False),
        Figure("memory of the gateway for each", held.kib_each, "KiB", goal=64, higher_is_better=False),
        Figure("CPU of the gateway while they idle", held.idle_share * 100, "% of a core", goal=1, higher_is_better=False),
    ]
