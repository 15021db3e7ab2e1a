"""A machine of the manual's own: this one's programs, but a network, a name, processes and folders of its own, so that commands run as they are printed."""
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from daemons import needs

ROOT = Path(__file__).parents[2]
OWN = ("/etc", "/opt", "/usr/local", "/root", "/var/lib", "/srv", "/media")  # written to in the box alone
LIMIT_S = 90
MAKE = """set -e
mount --make-rprivate /
mkdir -p {mem} && mount -t tmpfs none {mem}
for folder in {own}; do
    [ -d $folder ] || continue
    name=$(echo $folder | tr / _); mkdir -p {mem}/$name/up {mem}/$name/work
    mount -t overlay overlay -o lowerdir=$folder,upperdir={mem}/$name/up,workdir={mem}/$name/work $folder
done
mount -t tmpfs none /run && mkdir /run/lock
hostname gpu01
ip link set lo up
printf '127.0.0.1 localhost gpu01 gpu01.lab.example box gpu.lab.example\\n' > {mem}/hosts && mount --bind {mem}/hosts /etc/hosts
rm -rf /root/.ssh /root/.config/gpufairy /root/.local/share/gpufairy /usr/local/bin/fairy /etc/gpufairy
mkdir -p /opt/gpufairy /root/.ssh && mount --bind {root} /opt/gpufairy
printf 'StrictHostKeyChecking accept-new\\nLogLevel ERROR\\n' > /root/.ssh/config && chmod 600 /root/.ssh/config
echo ready
exec sleep infinity"""


class Box:
    def __init__(self, folder: Path) -> None:
        needs("unshare", "nsenter", "setpriv", "ip", "script", "curl", "jq", "ssh", "rsync", package="util-linux iproute2 bsdutils curl jq openssh-client rsync")
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir(parents=True)
        self._state = folder / "state"
        self._state.write_text("")
        shims(folder / "bin", self.work)
        script = MAKE.format(mem=folder / "mem", own=" ".join(OWN), root=ROOT)
        # It ends with us, however we end, and all that runs in it ends with it.
        self._first = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        assert self._first.stdout is not None
        said = self._first.stdout.readline()
        assert said == "ready\n", said + self._first.stdout.read()
        self._inside = int(Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text().split()[0])
        self.env = {
            "HOME": "/root", "LANG": "C.UTF-8", "TERM": "xterm", "COLUMNS": "250", "SUDO_USER": "minji", "TZ": "UTC",
            "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
            "PYTHONPATH": str(ROOT / "src"),
        }  # fmt: skip

    def run(self, command: str, answers: str = "", *, terminal: bool = False, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        """In the folder and with the variables that the command before left, as in one shell."""
        typed = f"script -qec {shlex.quote(command)} /dev/null" if terminal else command
        script = f"cd {self.work}; set -a; . {self._state}; {typed}\nstatus=$?\nexport -p > {self._state}; echo \"cd '$PWD'\" >> {self._state}; exit $status"
        enter = ["nsenter", "--target", str(self._inside), "--net", "--mount", "--uts", "--ipc", "--pid", "bash", "-c", script]
        return subprocess.run(enter, input=answers, capture_output=True, text=True, timeout=limit_s, check=False, env=self.env)

    def done(self, command: str, answers: str = "") -> str:
        """For what must work, and is no part of a page."""
        result = self.run(command, answers)
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
        return result.stdout

    def seen_from_here(self, path: str) -> Path:
        return Path(f"/proc/{self._inside}/root{path}")

    def close(self) -> None:
        """Whatever was started in it ends with its first process."""
        os.killpg(self._first.pid, signal.SIGKILL)
        self._first.wait()
        assert self._first.stdout is not None
        self._first.stdout.close()


def shims(folder: Path, work: Path) -> None:
    """`fairy` as installed, and as in a clone, with what else a clone has; a Python; a curl that fails when it is told no."""
    folder.mkdir()
    python = shlex.quote(sys.executable)
    for path in (folder / "fairy", work / "fairy"):
        path.write_text(f'#!/bin/sh\nexec {python} -P -m gpufairy "$@"\n')
    for name in ("python", "python3"):
        (folder / name).write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (folder / "curl").write_text('#!/bin/sh\nexec /usr/bin/curl --fail-with-body --max-time 30 "$@"\n')
    for path in (*folder.iterdir(), work / "fairy"):
        path.chmod(0o755)
    (work / "deploy").symlink_to(ROOT / "deploy")
