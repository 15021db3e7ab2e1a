"""`fairy up --install` and `fairy agent --install`: a service of systemd, with its user, folders and settings; and away with it again."""
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from gpufairy.core.errors import BadInput, Conflict, NotAllowed
from gpufairy.core.unit_file import AGENT, SERVER, Place, agent_unit, server_unit
from gpufairy.main.say import say_line

UNITS = Path("etc/systemd/system")
BOOTED = Path("run/systemd/system")  # there exactly where systemd runs the machine
SETTINGS = PurePosixPath("/etc/gpufairy/fairy.toml")
DATA, AGENT_DATA = PurePosixPath("/var/lib/gpufairy"), PurePosixPath("/var/lib/gpufairy-agent")
USER = "gpufairy"  # of a server without containers, which needs no rights of root
FIRST_SETTINGS = "# Settings of the server: every one has a default. See docs/settings.md, and the page Admin, Settings.\n"
LONGEST_S = 120

Install = Annotated[bool, typer.Option("--install", help="Make it a service of systemd that starts with the machine.")]
Uninstall = Annotated[bool, typer.Option("--uninstall", help="Stop and remove that service. Data, settings and sessions stay.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --install: only print what would be done.")]


def run_command(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Conflict(f"{command[0]} could not be run: {error}", "Run it by hand, then install again.") from error
    if done.returncode != 0:
        words = (done.stderr.strip().splitlines() or ["no words"])[-1]
        raise Conflict(f"{' '.join(command)} failed: {words[:300]}", "Mend that, then install again: it goes on where it stopped.")


@dataclass(frozen=True, slots=True)
class Machine:
    """This one; in tests a folder in its place."""

    root: Path = Path("/")
    run: Callable[[Sequence[str]], None] = run_command
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)

    def has_user(self, name: str) -> bool:
        try:
            pwd.getpwnam(name)
        except KeyError:
            return False
        return True

    def at(self, path: PurePosixPath | Path) -> Path:
        return self.root / str(path).lstrip("/")


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    text: str
    place: Place
    settings: PurePosixPath | None = None  # made if it is not there


def server_service(engine: str, data: Path | None, config: Path | None, options: Sequence[str]) -> Service:
    """As root where there are containers: homes belong to their users' uids. Else as a user of its own."""
    user = USER if engine == "process" else "root"
    place = Place(own_command(), absolute(data) or DATA, user)
    settings = absolute(config) or SETTINGS
    return Service(SERVER, server_unit(place, settings, ["--engine", engine, *options]), place, settings)


def agent_service(data: Path | None, options: Sequence[str]) -> Service:
    place = Place(own_command(), absolute(data) or AGENT_DATA)
    return Service(AGENT, agent_unit(place, options), place)


def install(service: Service, machine: Machine, *, dry_run: bool) -> None:
    unit = machine.at(UNITS / service.name)
    if dry_run:
        say_line(f"# {unit}\n{service.text}")
        say_line(f"# Then: {'; '.join(' '.join(command) for command in commands_for(service, machine))}")
        return
    check(machine)
    for command in commands_for(service, machine)[:-2]:
        machine.run(command)
    make_folders(service, machine)
    unit.parent.mkdir(parents=True, exist_ok=True)
    beside = unit.with_name(f".{unit.name}.new")
    beside.write_text(service.text)
    beside.chmod(0o644)
    os.replace(beside, unit)
    for command in commands_for(service, machine)[-2:]:
        machine.run(command)
    say_line(f"{service.name} is installed, runs, and starts with the machine. Its log: journalctl -u {service.name}")
    if service.name == SERVER:
        say_line("The one-time link to the page is in that log. Sessions outlive a restart: systemctl restart fairy-server")


def uninstall(name: str, machine: Machine, *, dry_run: bool) -> None:
    """Data and settings stay."""
    unit = machine.at(UNITS / name)
    if not unit.exists():
        raise BadInput(f"there is no service {name} on this machine", "Nothing to do.")
    commands = [["systemctl", "disable", "--now", name], ["systemctl", "daemon-reload"]]
    if dry_run:
        say_line(f"# {' '.join(commands[0])}; rm {unit}; {' '.join(commands[1])}")
        return
    check(machine)
    machine.run(commands[0])
    unit.unlink()
    machine.run(commands[1])
    say_line(f"{name} is stopped and removed. Sessions run on; data and settings are where they were.")


def commands_for(service: Service, machine: Machine) -> list[list[str]]:
    user = service.place.user
    add = ["useradd", "--system", "--user-group", "--home-dir", str(service.place.data), "--shell", "/usr/sbin/nologin", user]
    return [
        *([] if user == "root" or machine.has_user(user) else [add]),
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable", "--now", service.name],
    ]


def check(machine: Machine) -> None:
    if not machine.at(BOOTED).is_dir():
        raise BadInput(
            "--install: systemd does not run this machine",
            "Start it by what does: `fairy up -d`, or a container's own command. --install --dry-run prints the unit.",
        )
    if not machine.is_root:
        raise NotAllowed("--install: only root makes services", "Run it with sudo; --dry-run prints what it would do.")


def make_folders(service: Service, machine: Machine) -> None:
    """systemd makes a folder below /var/lib by itself."""
    if not service.place.is_state:
        data = machine.at(service.place.data)
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        give(data, service.place.user, machine)
    if service.settings is not None and not (file := machine.at(service.settings)).exists():
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(FIRST_SETTINGS)
        give(file, service.place.user, machine)


def give(path: Path, user: str, machine: Machine) -> None:
    if user != "root":
        machine.run(["chown", f"{user}:{user}", str(path)])


def given(**options: object) -> list[str]:
    """Those that were, as they are written: `--ssh-port 8422`."""
    said = {f"--{name.replace('_', '-')}": value for name, value in options.items() if value is not None and value is not False}
    return [word for name, value in said.items() for word in ([name] if value is True else [name, str(value)])]


def own_command() -> tuple[str, ...]:
    """How `fairy` was called, by its whole path: systemd has no PATH of yours."""
    named = os.environ.get("FAIRY_COMMAND") or sys.argv[0]
    found = shutil.which(named) if os.sep not in named else named
    if found is not None and Path(found).name == "fairy" and os.access(found, os.X_OK):
        return (os.path.abspath(found),)
    return (sys.executable, "-P", "-m", "gpufairy")


def absolute(path: Path | None) -> PurePosixPath | None:
    return None if path is None else PurePosixPath(path.absolute())
