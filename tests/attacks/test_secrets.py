"""Canaries in every credential: after all of them were used, well and badly, none is in a log, an argument, an answer, a page or at rest."""
import base64
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from apps_browser import SCRIPT, SETTINGS, Tab
from bench.ports import free_port
from bench.server import ROOT, LiveServer
from collector_scene import Collector
from intruders import sign_in

from endpoints import closed_port, server_tls, smtp_endpoint
from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow

AGENT_KEY = b"canary-agent-key-of-32-bytes-xyz"
GIVEN = {
    "OIDC secret": "canary-oidc-secret", "SMTP password": "canary-smtp-password", "webhook address": "canary-webhook-address",
    "webhook secret": "canary-webhook-secret", "own webhook address": "canary-own-address", "variable of a session": "canary-variable",
    "agent key": AGENT_KEY.decode(),
}  # fmt: skip
MORE = """
[oidc]
issuer = "http://127.0.0.1:{closed}"
client_id = "gpufairy"
client_secret_file = "{folder}/oidc.secret"
[[channels]]
name = "hook"
kind = "webhook"
url_file = "{folder}/hook.url"
secret_env = "HOOK_SECRET"
[[channels]]
name = "mail"
kind = "email"
host = "127.0.0.1"
port = {smtp}
security = "starttls"
ca_file = "{ca}"
sender = "fairy@lab.example"
to = ["ops@lab.example"]
user = "fairy"
password_file = "{folder}/smtp.password"
"""
PAGES = ("/", "/account", "/cluster", "/queue", "/admin", "/admin/users", "/admin/alerts", "/admin/audit", "/admin/events", "/admin/settings", "/admin/nodes", "/admin/classes", "/help", "/docs")
ANSWERS = ("/metrics", "/healthz", "/readyz", "/api/v1/events?limit=1000", "/api/v1/me", "/api/v1/tokens", "/api/v1/keys", "/api/v1/users", "/api/v1/agents", "/api/v1/sessions?all=1&all_users=1", "/api/v1/alerts/channels", "/api/v1/doctor", "/api/v1/nodes", "/api/v1/classes", "/api/v1/openapi.json", "/api/v1/backups", "/api/v1/leaks")  # fmt: skip
# Where a secret lies by its nature, readable by the server's own account alone: its own tokens and keys, each session's own.
OWN_FILES = re.compile(r"ssh/(gateway\.token|host_\w+)$|/token$|/session\.json$|node/agent\.key$")


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    folder = Path(tempfile.mkdtemp(prefix="fairy-a-"))
    context, ca = server_tls(folder)
    with smtp_endpoint(user="fairy", password="another", starttls=context) as smtp:
        for name, text in {"oidc.secret": GIVEN["OIDC secret"], "smtp.password": GIVEN["SMTP password"], "hook.url": f"http://127.0.0.1:{closed_port()}/{GIVEN['webhook address']}"}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o600)
        more = MORE.format(folder=folder, closed=closed_port(), smtp=smtp.port, ca=ca)
        server = LiveServer(folder, SETTINGS.format(ports="18800-18819") + more, ssh=True, cold=True)  # its variables are looked at
        server.env["HOOK_SECRET"] = GIVEN["webhook secret"]
        with server:
            yield server
    shutil.rmtree(folder)


def text_of(answer) -> bytes:
    return answer.body + repr(answer.headers).encode()


class Run:
    """Everything used once as meant, and once as somebody would who must not, or who errs."""

    def __init__(self, live: LiveServer) -> None:
        self.live, self.secrets, self.admin = live, dict(GIVEN), live.client()
        self.secrets["admin's token"] = live.token
        self.secrets["gateway's token"] = (live.data / "ssh" / "gateway.token").read_text().strip()
        self.people()
        self.session()
        self.links()
        self.agent()
        self.troubles()

    def people(self) -> None:
        self.admin.add_user({"name": "kim"})
        self.secrets["user's token"] = self.admin.create_token({"user": "kim"})["token"]
        self.secrets["token for metrics"] = self.admin.create_token({"scope": "metrics"})["token"]
        self.secrets["cookie"] = self.cookie = sign_in(self.live, self.live.token)
        self.kim = self.live.client(self.secrets["user's token"])
        self.kim.set_messages({"kind": "webhook", "address": f"https://hooks.example.invalid/{GIVEN['own webhook address']}", "about": ["failed"]})

    def session(self) -> None:
        port, stolen = free_port(), self.live.folder / "stolen"
        script = f"cp $FAIRY_TOKEN_FILE {stolen}; exec {sys.executable} {SCRIPT} {port}"
        self.kim.submit({"name": "app", "gpus": "0", "env": {"API_KEY": GIVEN["variable of a session"]}, "command": ["sh", "-c", script]})
        wait_for_state(self.kim, "app", "RUNNING")
        until(lambda: self.kim.open_app("app", f"port:{port}")["state"] == "ready", "the app to answer")
        self.secrets["token of a session"] = stolen.read_text().strip()
        url = self.kim.open_app("app", f"port:{port}")["url"]
        self.secrets["ticket of an app"] = urlsplit(url).query.rpartition("=")[2]
        self.secrets["cookie of an app"] = Tab(url).cookie.partition("=")[2]
        unused = self.kim.open_app("app", f"port:{port}")["url"]
        self.secrets["ticket never used"] = urlsplit(unused).query.rpartition("=")[2]

    def links(self) -> None:
        for name in ("link", "link never used"):
            self.secrets[name] = parse_qs(urlsplit(self.admin.sign_in_link()).query)["code"][0]
        ask(self.live.url, "GET", f"/signin?code={self.secrets['link']}")
        ask(self.live.url, "GET", f"/signin?code={self.secrets['link']}")
        roster = base64.b64encode(b"login,name\nstu1,Stu One\n").decode()
        self.admin.add_class({"name": "cs1", "roster": roster, "end": f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}"})
        made = self.admin.do_to_class("cs1", "links", {"all": True})
        self.secrets["link of a class"] = parse_qs(urlsplit(made["items"][0]["url"]).query)["code"][0]
        ask(self.live.url, "GET", f"/join?code={self.secrets['link of a class']}")

    def agent(self) -> None:
        folder = self.live.folder / "agent"
        (folder / "data" / "node").mkdir(parents=True, mode=0o700)
        (folder / "data" / "node" / "agent.key").write_bytes(AGENT_KEY)
        (folder / "data" / "node" / "agent.key").chmod(0o600)
        self.host = Collector(folder, "agent", "--server", self.live.url, "--name", "gpu09", "--every", "0.5s").start()
        until(lambda: [one for one in self.admin.agents() if one["name"] == "gpu09"], "the agent to ask")
        self.admin.accept_agent("gpu09")

    def troubles(self) -> None:
        """What people do wrong with them: in an address, in a form, in a name; and what fails on the other side."""
        for secret in list(self.secrets.values()):
            for path in (f"/api/v1/me?token={secret}", f"/api/v1/sessions/{secret}", f"/{secret}", f"/signin?code={secret}x"):
                ask(self.live.url, "GET", path, token=self.live.token)
            ask(self.live.url, "POST", "/signin", body=f"token={secret}x".encode(), headers={"Origin": self.live.url})
            ask(self.live.url, "GET", "/api/v1/me", token=f"{secret}x")
            ask(self.live.url, "POST", "/api/v1/sessions", token=self.live.token, body={"name": f"{secret}!"})
        ask(self.live.url, "GET", "/signin/oidc")
        for channel in ("hook", "mail"):
            ask(self.live.url, "POST", f"/api/v1/alerts/channels/{channel}/test", token=self.live.token)
        ask(self.live.url, "POST", "/api/v1/messages/webhook/test", token=self.secrets["user's token"])
        self.kim.submit({"name": "fails", "gpus": "0", "command": ["false"]})
        wait_for_state(self.kim, "fails", "ENDED")
        self.live.fairy("backup", "now")

    def end(self) -> None:
        self.host.kill()


@pytest.fixture(scope="module")
def run(live) -> Iterator[Run]:
    made = Run(live)
    yield made
    made.end()


def assert_none_of(secrets: dict[str, str], found: bytes, where: str, but: tuple[str, ...] = ()) -> None:
    for name, secret in secrets.items():
        at = found.find(secret.encode())
        assert at < 0 or name in but, f"the {name} is in {where}: {found[max(0, at - 150) : at + 20]!r}"


def test_none_is_in_a_log(live, run):
    for path in (live.folder / "server.log", live.data / "ssh" / "gateway.log", live.folder / "agent" / "log"):
        assert_none_of(run.secrets, path.read_bytes(), str(path))


def test_none_is_in_the_arguments_of_any_process_nor_in_what_a_session_inherits(live, run):
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if str(os.getpid()).encode() != folder.name.encode():
            assert_none_of(run.secrets, line, f"the arguments of {line[:80]!r}")
        if b"FAIRY_SESSION=app" in environment:
            assert_none_of(run.secrets, environment, "a session's environment", but=("variable of a session",))


@pytest.mark.parametrize("path", ANSWERS)
def test_none_is_in_an_answer_even_to_an_admin(live, run, path):
    assert_none_of(run.secrets, text_of(ask(live.url, "GET", path, token=live.token)), path)


@pytest.mark.parametrize("path", PAGES)
def test_none_is_on_a_page_even_of_an_admin(live, run, path):
    answer = ask(live.url, "GET", path, headers={"Cookie": f"fairy_page={run.cookie}"})
    assert answer.status == 200, answer.body[:300]
    assert_none_of(run.secrets, text_of(answer), path)


def test_errors_of_channels_and_of_the_sign_in_service_show_none(live, run):
    asked = [ask(live.url, "POST", f"/api/v1/alerts/channels/{name}/test", token=live.token) for name in ("hook", "mail")]
    asked.append(ask(live.url, "GET", "/signin/oidc"))
    for answer in asked:
        assert answer.status >= 400
        assert_none_of(run.secrets, text_of(answer), "an error")


def test_none_is_in_a_support_bundle(live, run):
    done = live.fairy("support-bundle", "--data", str(live.data), "--to", str(live.folder / "bundle.tar.gz"), timeout=120)
    made = next(live.folder.glob("*.tar.gz"), None)
    assert made is not None, done.stderr
    with tarfile.open(made) as tar:
        for member in tar.getmembers():
            taken = tar.extractfile(member)
            assert_none_of(run.secrets, taken.read() if taken is not None else b"", f"the support bundle's {member.name}")


def test_tokens_links_and_cookies_are_at_rest_as_hashes_alone(live, run):
    """In the database, its log and every other file of the server's; the user's own words to us are kept, as they must be."""
    kept = ("own webhook address", "variable of a session")
    for path in [path for path in live.data.rglob("*") if path.is_file() and not OWN_FILES.search(str(path))]:
        assert_none_of(run.secrets, path.read_bytes(), str(path), but=kept)


def test_what_is_secret_by_its_nature_is_its_owners_alone(live, run):
    for path in [path for path in live.data.rglob("*") if path.is_file() and OWN_FILES.search(str(path))]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert (live.folder / "agent" / "data" / "node" / "agent.key").stat().st_mode & 0o077 == 0


def test_no_secret_of_the_tests_own_was_ever_in_the_source():
    """A token that somebody pasted while trying something out."""
    pattern = re.compile(rb"fairy[pg]?_[A-Za-z0-9_-]{43}")
    for path in (ROOT / "src").rglob("*.py"):
        assert pattern.search(path.read_bytes()) is None, path
