"""`fairy doctor`: what is wrong with this machine, and with the server's; with --fix it mends what can be mended without harm."""
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gpufairy.cli.doctor_words import print_findings
from gpufairy.cli.exits import FAILED
from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client import Fairy, local_server
from gpufairy.client.connection import find
from gpufairy.client.errors import Problem
from gpufairy.client.where import Where
from gpufairy.core.doctor import Finding, Verdict
from gpufairy.core.doctor_checks import checked_names, look
from gpufairy.core.doctor_facts import Facts, HostFacts
from gpufairy.core.doctor_merge import merged
from gpufairy.core.doctor_shape import finding_shape, shaped_finding
from gpufairy.core.errors import FairyError, NotSignedIn
from gpufairy.main.doctor_fix import mended
from gpufairy.main.doctor_look import Patient, looked_at, running_here
from gpufairy.main.folders import data_folder
from gpufairy.main.say import say_line
from gpufairy.main.upkeep_places import found_places
from gpufairy.node.doctor_ask import page
from gpufairy.node.doctor_watch import PROMETHEUS

ANSWER_S = 40.0  # a server that looks at itself takes as long as we do
FORBIDDEN, NOT_FOUND = 403, 404

Only = Annotated[list[str] | None, typer.Option("--only", metavar="CHECK", help="Only this check, with its reasoning. Repeatable.")]
Fix = Annotated[bool, typer.Option("--fix", help="Mend what can be mended without harm: nothing is restarted, no GPU touched.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="With --fix: do not ask.")]
Here = Annotated[bool, typer.Option("--here", help="Look at this machine alone; do not ask the server.")]
Last = Annotated[bool, typer.Option("--last", help="What the server's doctor found last, by night or when asked: nobody looks now.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data folder to look at. Else that of the server here.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The server's fairy.toml. Else that of its last start.")]
Prometheus = Annotated[str, typer.Option("--prometheus", metavar="URL", help="Where Prometheus answers.")]


@dataclass(frozen=True, slots=True)
class FromServer:
    """What the server says of its own host, and what is known of it without its words."""

    host: HostFacts
    findings: tuple[Finding, ...] = ()
    is_here: bool = False


@dataclass(frozen=True, slots=True)
class Fixed:
    check: str
    before: Verdict
    deed: str


def _doctor(
    ctx: typer.Context, *, fix: Fix = False, yes: Yes = False, as_json: AsJson = False, only: Only = None, here: Here = False,
    last: Last = False, data: Data = None, config: ConfigFile = None, prometheus: Prometheus = PROMETHEUS,
) -> None:  # fmt: skip
    """Check driver, containers, metrics, Kubernetes and the server. Exit code 1 if something is bad."""
    names = checked_names(only or ())
    if last:
        findings = found_last(ctx, names, as_json=as_json)
        raise typer.Exit(FAILED if any(one.verdict is Verdict.BAD for one in findings) else 0)
    patient = make_patient(data, config, prometheus)
    asks_server = not here and data is None and config is None
    facts, findings = looked(ctx.obj, patient, names, asks_server=asks_server)
    fixed = mend(facts, findings, ask=not yes and sys.stdin.isatty()) if fix else []
    if fixed:
        _, findings = looked(ctx.obj, patient, names, asks_server=asks_server)
    if as_json:
        print_json([shape(one, fixed) for one in findings])
    else:
        print_findings(findings, [(one.check, one.before.value, one.deed) for one in fixed], with_steps=bool(names))
    if any(one.verdict is Verdict.BAD for one in findings):
        raise typer.Exit(FAILED)


doctor = one_command(_doctor, "fairy doctor\nfairy doctor --fix\nfairy doctor --only no-metrics\nfairy doctor --last\nfairy doctor --json")


def found_last(ctx: typer.Context, names: Sequence[str], *, as_json: bool) -> list[Finding]:
    with connect(ctx) as fairy:
        told = fairy.doctor(last=True)
    findings = [one for one in map(shaped_finding, told["items"]) if not names or one.check in names]
    if as_json:
        print_json([shape(one, ()) for one in findings])
    else:
        say_line(f"Looked at {clock_of(told['at'])}:")
        print_findings(findings, (), with_steps=bool(names))
    return findings


def make_patient(data: Path | None, config: Path | None, prometheus: str) -> Patient:
    env = dict(os.environ)
    server = None if data is not None else quiet_find(env)
    folder = Path(server.data) if server is not None else data_folder(data, env)
    http_port, ssh_port, url = running_here(folder, env)
    settings = found_places(folder, config).config
    return Patient(folder, settings, env, prometheus, http_port=http_port, ssh_port=ssh_port, url=url)


def quiet_find(env: dict[str, str]) -> local_server.LocalServer | None:
    try:
        return local_server.find_running(env)
    except FairyError:
        return None


def looked(said: object, patient: Patient, names: Sequence[str], *, asks_server: bool) -> tuple[Facts, list[Finding]]:
    facts = looked_at(patient)
    server = heard(said, facts.host, patient) if asks_server else FromServer(facts.host)
    facts = replace(facts, host=server.host)
    return facts, merged(look(facts, names), [one for one in server.findings if not names or one.check in names], same_host=server.is_here)


def heard(said: object, host: HostFacts, patient: Patient) -> FromServer:
    where = said if isinstance(said, Where) else Where()
    try:
        found = find(where.server, where.token_file, os.environ)
    except NotSignedIn:
        return FromServer(host)
    try:
        with Fairy(found.url, found.token, ANSWER_S) as fairy:
            told = fairy.doctor()["items"]
    except Problem as error:
        # It answers: one who is no admin is told nothing of its host, and an older one has no doctor.
        trouble = "" if error.status in (FORBIDDEN, NOT_FOUND) else error.detail
        return FromServer(replace(host, server=found.url, server_trouble=trouble, clock_skew=skew_to(found.url)))
    except FairyError as error:
        return FromServer(replace(host, server=found.url, server_trouble=error.detail))
    host = replace(host, server=found.url, clock_skew=skew_to(found.url))
    is_here = patient.http_port is not None and found.url in addresses(patient)
    return FromServer(host, tuple(shaped_finding(one) for one in told), is_here)


def addresses(patient: Patient) -> set[str]:
    return {patient.url.rstrip("/"), *(f"http://{host}:{patient.http_port}" for host in ("127.0.0.1", "localhost", "[::1]"))}


def skew_to(url: str) -> Any:
    """How far the server's clock is ahead of ours, to the second that HTTP tells. None: it does not tell."""
    answer = page(f"{url}/healthz")
    try:
        return None if answer is None else parsedate_to_datetime(answer[2]) - datetime.now(UTC)
    except (ValueError, TypeError):
        return None


def mend(facts: Facts, findings: Sequence[Finding], *, ask: bool) -> list[Fixed]:
    done = []
    for one in findings:
        if not one.fixable or one.where or one.verdict not in (Verdict.WARN, Verdict.BAD):
            continue
        if ask and not typer.confirm(f"{one.about}: {one.found}. Mend it?", err=True):
            continue
        try:
            done.append(Fixed(one.check, one.verdict, mended(one.check, facts)))
        except FairyError as error:
            done.append(Fixed(one.check, one.verdict, f"not mended: {error.detail} {error.next_step}".strip()))
    return done


def shape(one: Finding, fixed: Sequence[Fixed]) -> dict[str, Any]:
    deed = next((done for done in fixed if done.check == one.check and not one.where), None)
    return {**finding_shape(one), **({} if deed is None else {"before": deed.before.value, "did": deed.deed})}
