"""systemd units of the server and of an agent, as text. Pure: where things lie is said by whoever installs them.

The server's sessions must outlive it: of its processes systemd ends the first alone (KillMode=process), and no sandbox is put over what
sessions inherit. Containers are children of Docker, and hear of none of this.
"""
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpufairy.core.errors import BadInput

SERVER, AGENT = "fairy-server.service", "fairy-agent.service"
STATE = PurePosixPath("/var/lib")

SERVER_UNIT = """\
# The server: queue, sessions, page, API, SSH. Settings in {config}.
[Unit]
Description=gpufairy server
After=network-online.target docker.service podman.socket
Wants=network-online.target

[Service]
{who}Environment=HOME={home}
# Makes the Python environment of a clone on first use, which the service itself may not write.
ExecStartPre=+{command} --version
ExecStart={command} up {options}
{state}# The SSH gateway, everybody's shells and, without containers, sessions themselves outlive a restart of the server.
KillMode=process
OOMPolicy=continue
Restart=on-failure
RestartSec=2
# What is open ends within seconds; a database on a slow disk may take longer to close.
TimeoutStopSec=60
LimitNOFILE=65536
ProtectHostname=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""

AGENT_UNIT = """\
# Watches this host, and reports to a server.
[Unit]
Description=gpufairy agent: readings of this host for the server and for Prometheus
After=network-online.target
Wants=network-online.target

[Service]
Environment=HOME={home}
# Makes the Python environment of a clone on first use, which the service itself may not write.
ExecStartPre=+{command} --version
ExecStart={command} agent {options}
{state}ReadWritePaths=-/var/lib/node_exporter/textfile_collector -/var/lib/prometheus/node-exporter

# It reads the host's processes, devices and disks, so these must stay as they are: no PrivateDevices, PrivatePIDs, PrivateUsers,
# ProtectProc, ProtectHome, PrivateTmp. Nor ProtectClock, which would hide /dev/nvidia*, nor ProtectKernelModules: the driver may
# not be loaded yet.
NoNewPrivileges=yes
ProtectSystem=strict
ProtectControlGroups=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077
MemoryMax=512M
# Each file system, sensor and process that does not answer holds a thread; at the worst there are some hundred of them.
TasksMax=512
OOMPolicy=continue
# A driver that hangs keeps its reader from ending: systemd shall not wait for it long.
TimeoutStopSec=20
Restart=always
RestartSec=2

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class Place:
    """What a unit needs to know of the machine."""

    command: tuple[str, ...]  # how `fairy` is called there, by its whole path
    data: PurePosixPath
    user: str = "root"

    @property
    def is_state(self) -> bool:
        """systemd itself makes a folder right below /var/lib, and gives it to the user."""
        return self.data.parent == STATE


def server_unit(place: Place, config: PurePosixPath, options: Sequence[str]) -> str:
    who = "" if place.user == "root" else f"User={place.user}\n"
    home = "/root" if place.user == "root" else word(str(place.data))
    said = ["--data", str(place.data), "--config", str(config), *options]
    return SERVER_UNIT.format(
        who=who, home=home, command=line(place.command), options=line(said), state=state_of(place), config=plain(str(config))
    )


def agent_unit(place: Place, options: Sequence[str]) -> str:
    said = ["--data", str(place.data), *options]
    state = state_of(place) or f"ReadWritePaths={word(str(place.data))}\n"
    return AGENT_UNIT.format(home=word(str(place.data)), command=line(place.command), options=line(said), state=state)


def state_of(place: Place) -> str:
    return f"StateDirectory={place.data.name}\nStateDirectoryMode=0700\n" if place.is_state else ""


def line(words: Sequence[str]) -> str:
    return " ".join(word(one) for one in words)


def word(text: str) -> str:
    """As systemd reads it: % and $ are its own signs, and blanks part words."""
    plain(text)
    escaped = text.replace("%", "%%").replace("$", "$$")
    if escaped and not any(sign in escaped for sign in " \t\"'\\;"):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain(text: str) -> str:
    if not text.isprintable():
        raise BadInput(f"{text!r} cannot be written in a unit: it has control characters", "Use paths and options of plain text.")
    return text
