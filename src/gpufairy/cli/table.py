"""Every command, where it lives and what it is for: loaded only when it is called, so that `fairy --help` loads none."""
import gc
import importlib
import sys
from dataclasses import dataclass
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from gpufairy.core.errors import Conflict


@dataclass(frozen=True, slots=True)
class Row:
    where: str  # module:attribute, a typer.Typer
    about: str
    section: str = "Commands"


ADMIN, MACHINE = "For admins", "On machines"

COMMANDS = {
    "run": Row("gpufairy.cli.run:run", "Run a job: wait its turn, show its output, exit with its code"),
    "start": Row("gpufairy.cli.start:start", "Start an interactive session"),
    "apply": Row("gpufairy.cli.apply:apply", "Submit what a session file asks for"),
    "ps": Row("gpufairy.cli.sessions:ps", "List sessions"),
    "show": Row("gpufairy.cli.sessions:show", "Show all about one session"),
    "logs": Row("gpufairy.cli.logs:logs", "Print a session's output"),
    "results": Row("gpufairy.cli.results:results", "Fetch what a job left in $FAIRY_RESULTS"),
    "why": Row("gpufairy.cli.why:why", "Say why a session waits, and until when"),
    "ssh": Row("gpufairy.cli.inside:ssh", "Come into a session: a shell, or one command"),
    "open": Row("gpufairy.cli.open_app:open_app", "Open Jupyter or another app of a session in the browser"),
    "keep": Row("gpufairy.cli.alter:keep", "Let a session run longer, and keep its GPUs though it rests"),
    "resume": Row("gpufairy.cli.alter:resume", "Start a session that is over again"),
    "swap": Row("gpufairy.cli.alter:swap", "Give a session another image"),
    "commit": Row("gpufairy.cli.alter:commit", "Make an image of a session"),
    "image": Row("gpufairy.cli.images:app", "Images: list, show, pull, approve, refuse, remove"),
    "stop": Row("gpufairy.cli.sessions:stop", "Stop sessions"),
    "smi": Row("gpufairy.cli.smi:smi", "Show every GPU of every host, and who is on it"),
    "top": Row("gpufairy.tui.top:top", "The same, live"),
    "usage": Row("gpufairy.cli.usage:usage", "Show what was held and what was used"),
    "book": Row("gpufairy.cli.book:app", "Book GPUs for a class or a deadline: list, show, cancel"),
    "disk": Row("gpufairy.cli.disk:disk", "Show what takes room on disk, and what could be removed"),
    "advice": Row("gpufairy.cli.advice:advice", "Say what your sessions could do better"),
    "ledger": Row("gpufairy.cli.ledger:ledger", "Show who is ahead of their share, and who behind"),
    "free": Row("gpufairy.cli.cluster:free", "Show what is free now, and who holds the rest"),
    "queue": Row("gpufairy.cli.cluster:queue", "Show who waits, in turn"),
    "whoami": Row("gpufairy.cli.signin:whoami", "Say who you are here, and where that is"),
    "web": Row("gpufairy.cli.signin:web", "Print a link that signs you in to the page, once"),
    "login": Row("gpufairy.cli.signin:login", "Sign in to a server"),
    "key": Row("gpufairy.cli.keys:app", "SSH keys: add, list, remove"),
    "token": Row("gpufairy.cli.tokens:app", "Tokens for scripts: create, list, revoke"),
    "messages": Row("gpufairy.cli.messages:app", "Where you are told of your sessions: show, set, remove, test"),
    "user": Row("gpufairy.cli.users:app", "Users: add, list, show, role, team, share, disable, enable", ADMIN),
    "team": Row("gpufairy.cli.teams:app", "Teams and their shares: add, list, show, share, remove", ADMIN),
    "class": Row("gpufairy.cli.classes:app", "Classes: add, list, show, change, roster, links, reset, handins, archive, remove", ADMIN),
    "report": Row("gpufairy.cli.report:report", "A month in GPU-hours, energy and cost", ADMIN),
    "quota": Row("gpufairy.cli.quotas:app", "What users and teams may hold at most: set, list, unset", ADMIN),
    "mig": Row("gpufairy.cli.mig:app", "How GPUs are cut by MIG: show, plan, apply, auto", ADMIN),
    "node": Row("gpufairy.cli.nodes:app", "Hosts: list, drain, resume, maintenance; waiting, accept, forget agents", ADMIN),
    "pool": Row("gpufairy.cli.pools:app", "GPU nodes in a cloud that come when asked for: add, list, show, remove", ADMIN),
    "share": Row("gpufairy.cli.shares:app", "How GPUs are shared: fGPU per GPU, and what is enforced", ADMIN),
    "doctor": Row("gpufairy.main.doctor:doctor", "Say what is wrong with this machine and the server's, and how to mend it", ADMIN),
    "selftest": Row("gpufairy.cli.selftest:app", "Self-tests: isolation, show", ADMIN),
    "leaks": Row("gpufairy.cli.leaks:leaks", "Show what is held and nobody has, and what was put right", ADMIN),
    "alerts": Row("gpufairy.cli.alerts:app", "What is wrong: list, ack, silence, rules, channels, test, uptime", ADMIN),
    "cluster": Row("gpufairy.cli.cluster_plan:app", "From several boxes to one cluster: plan", ADMIN),
    "backup": Row("gpufairy.main.backup:app", "Back up users, sessions, the ledger, settings and keys: list", ADMIN),
    "move": Row("gpufairy.cli.move:move_command", "Bring users, homes and history of one server to another", ADMIN),
    "simulate": Row("gpufairy.cli.simulate:simulate", "Try a policy on a trace, or on your own past, before you switch", ADMIN),
    "events": Row("gpufairy.cli.events:events", "Show what happened, and with -f what happens"),
    "up": Row("gpufairy.main.up:up", "Start the server here", MACHINE),
    "restore": Row("gpufairy.main.restore:restore", "Put a backup back in place", MACHINE),
    "upgrade": Row("gpufairy.main.upgrade:upgrade", "Say what a newer version would do to the database, and try it on a copy", MACHINE),
    "support-bundle": Row("gpufairy.main.support:support_bundle", "Gather what helps whoever helps you, without secrets", MACHINE),
    "env": Row("gpufairy.main.envs:app", "Install JupyterLab or MLflow once, for all sessions", MACHINE),
    "agent": Row("gpufairy.main.agent:agent", "Watch this host and report to a server", MACHINE),
    "exporter": Row("gpufairy.main.exporter:exporter", "Serve this host's readings to Prometheus", MACHINE),
    "down": Row("gpufairy.cli.machines:down", "Stop the server here; sessions run on", MACHINE),
}


class LazyGroup(TyperGroup):
    """Knows each command by its row, and loads the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update({name: TyperCommand(name=name, help=row.about) for name, row in COMMANDS.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            self.commands[args[0]] = load(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section in dict.fromkeys(row.section for row in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, row.about) for name, row in COMMANDS.items() if row.section == section])


def load(name: str) -> Any:
    module, _, attribute = COMMANDS[name].where.partition(":")
    if module.startswith("gpufairy.main.") and sys.platform != "linux":  # else the first part of Linux that is missed would say so
        system = {"darwin": "macOS"}.get(sys.platform, sys.platform)
        raise Conflict(
            f"`fairy {name}` is for the machine that runs the server, which is a Linux: this is {system}",
            "Start the server on a Linux machine, in a virtual one if need be. Here: `fairy login URL`, then run, ps, ssh and the rest.",
        )
    command = get_command(getattr(load_module(module), attribute))
    command.name = name
    return command


def load_module(name: str) -> Any:
    gc.disable()  # modules make a great many objects that stay: looking for garbage among them costs a fifth of the start
    try:
        return importlib.import_module(name)
    finally:
        gc.enable()
