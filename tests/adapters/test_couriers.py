"""Letters to real endpoints: taken, refused, redirected, hanging; and nothing secret in what is said about it."""
import contextlib
import hashlib
import hmac
import socketserver
import threading
import time

import pytest

from builders import NOW
from endpoints import HANG, SLOW, closed_port, http_endpoint, server_tls, smtp_endpoint
from gpufairy.core.errors import BadInput, FairyError, NotDelivered
from gpufairy.core.letter import Item, Letter
from gpufairy.couriers import http_post, mail
from gpufairy.couriers.certificates import look_at
from gpufairy.couriers.http_post import is_inside
from gpufairy.couriers.make import make_courier, make_user_courier
from gpufairy.wire.alerts import ChannelConfig

pytestmark = pytest.mark.slow  # deadlines are waited for
ITEM = Item("gpu_xid", "firing", "critical", "gpu01 GPU 0: XID 79: it <fell> & rolled", "Look at it.", "gpu01", "gpu01 GPU 0 XID 79", "abc", "2026-11-15T08:00:00Z")
LETTER = Letter((ITEM,), link="https://lab.example/admin/alerts")


def courier(**fields):
    made = ChannelConfig.model_validate({"name": "ops", **fields})
    made.to_channel()
    return make_courier(made)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The deadlines of the product, but shorter."""
    monkeypatch.setattr(http_post, "DEADLINE_S", 1.0)
    monkeypatch.setattr(mail, "DEADLINE_S", 1.5)
    monkeypatch.setattr(mail, "ANSWER_S", 1.0)


async def test_a_webhook_gets_json_with_a_signature_over_time_and_body(tmp_path):
    (tmp_path / "secret").write_text("s3cret\n")
    with http_endpoint() as hook:
        await courier(kind="webhook", url=f"{hook.url}/in", secret_file=str(tmp_path / "secret")).send(LETTER)
    [got] = hook.requests
    wanted = hmac.new(b"s3cret", got.headers["Fairy-Timestamp"].encode() + b"." + got.body, hashlib.sha256).hexdigest()
    assert got.headers["Fairy-Signature"] == f"sha256={wanted}"
    assert abs(int(got.headers["Fairy-Timestamp"]) - time.time()) < 60
    assert (got.path, got.json["version"], got.json["severity"]) == ("/in", 1, "critical")
    assert got.json["items"][0]["sentence"] == ITEM.sentence


async def test_slack_gets_text_in_which_nothing_of_strangers_is_markup(monkeypatch):
    with http_endpoint() as hook:
        monkeypatch.setenv("SLACK_URL", f"{hook.url}/services/T0/B0/xyz")
        await courier(kind="slack", url_env="SLACK_URL").send(LETTER)
    text = hook.requests[0].json["text"]
    assert "[critical] gpu01 GPU 0: XID 79: it &lt;fell&gt; &amp; rolled." in text
    assert "What to do: Look at it." in text


async def test_ntfy_gets_a_title_a_priority_and_the_topic_of_the_url(tmp_path):
    (tmp_path / "token").write_text("tk_1")
    with http_endpoint() as hook:
        await courier(kind="ntfy", url=f"{hook.url}/base/lab-alerts", secret_file=str(tmp_path / "token")).send(LETTER)
        await make_user_courier("ntfy", "kims-topic", [], f"{hook.url}/").send(LETTER)
    first, second = hook.requests
    assert (first.path, first.json["topic"], first.json["priority"], first.headers["Authorization"]) == ("/base/", "lab-alerts", 5, "Bearer tk_1")
    assert (second.path, second.json["topic"], second.json["click"]) == ("/", "kims-topic", LETTER.link)


async def test_alertmanager_gets_its_v2_form_with_an_end_only_for_what_is_over():
    over = Item("gpu_hot", "resolved", "critical", "cool again", "", "gpu01", "gpu01 GPU 0", "abd", "2026-11-15T08:00:00Z", "2026-11-15T09:00:00Z")
    with http_endpoint() as hook:
        await courier(kind="alertmanager", url=hook.url).send(Letter((ITEM, over)))
    [got] = hook.requests
    assert got.path == "/api/v2/alerts"
    assert got.json[0]["labels"] == {"alertname": "gpu_xid", "severity": "critical", "node": "gpu01", "thing": "gpu01 GPU 0 XID 79", "source": "gpufairy"}
    assert (got.json[0]["startsAt"], got.json[1]["endsAt"]) == ("2026-11-15T08:00:00Z", "2026-11-15T09:00:00Z")
    assert got.json[0]["endsAt"] > NOW.isoformat()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (500, "answered 500: said"), (404, "answered 404: said"), (HANG, "did not answer within 1 s"), (SLOW, "did not answer within 1 s"),
        ((302, "http://elsewhere.example/secret-path"), "points to http://elsewhere.example (302), which is not followed"), ((307, "/there"), "points to another path there (307)"),
    ],
    ids=str,
)  # fmt: skip
async def test_an_endpoint_that_misbehaves_is_told_in_words_and_within_a_deadline(answer, words):
    with http_endpoint(answer) as hook:
        began = time.monotonic()
        with pytest.raises(NotDelivered) as told:
            await courier(kind="webhook", url=f"{hook.url}/secret-path").send(LETTER)
        assert time.monotonic() - began < 3
    assert words in told.value.detail
    assert "secret-path" not in told.value.detail + told.value.next_step
    assert len(hook.requests) == 1


async def test_an_endpoint_that_is_not_there_is_told_in_words():
    with pytest.raises(NotDelivered, match="cannot be reached"):
        await courier(kind="webhook", url=f"http://127.0.0.1:{closed_port()}/x").send(LETTER)
    with pytest.raises(NotDelivered) as told:
        await courier(kind="webhook", url="http://no-such-host.invalid/secret-path").send(LETTER)
    assert "secret-path" not in told.value.detail


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "0.0.0.0", "224.0.0.1", "100.64.0.1"])
def test_addresses_inside_are_known(address):
    assert is_inside(address)
    assert not is_inside("93.184.216.34")
    assert not is_inside("2606:2800:220:1:248:1893:25c8:1946")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_a_users_url_never_leads_inside(host):
    with http_endpoint() as hook:
        url = hook.url.replace("127.0.0.1", host)
        for kind in ("webhook", "slack"):
            with pytest.raises(NotDelivered, match="inside this network"):
                await make_user_courier(kind, f"{url}/x", [], "").send(LETTER)
    assert hook.requests == []


def a_mail_channel(smtp, **fields):
    return courier(kind="email", host="127.0.0.1", port=smtp.port, sender="fairy@lab.example", **{"to": ["kim@lab.example"], **fields})


async def test_mail_goes_by_starttls_with_a_password_from_a_file(tmp_path):
    context, ca = server_tls(tmp_path)
    (tmp_path / "password").write_text("hunter2\n")
    with smtp_endpoint(user="fairy", password="hunter2", starttls=context) as smtp:
        await a_mail_channel(smtp, user="fairy", password_file=str(tmp_path / "password"), ca_file=str(ca)).send(LETTER)
    [message] = smtp.mails
    assert smtp.secure == [True]
    assert (message["To"], message["From"], message["Auto-Submitted"]) == ("kim@lab.example", "fairy@lab.example", "auto-generated")
    assert message["Subject"] == "[gpufairy] [critical] gpu01 GPU 0: XID 79: it <fell> & rolled"
    assert "What to do: Look at it." in message.get_content()


async def test_mail_is_refused_where_it_would_be_read_by_others(tmp_path):
    with smtp_endpoint() as smtp, pytest.raises(NotDelivered, match="STARTTLS"):
        await a_mail_channel(smtp).send(LETTER)
    context, _ = server_tls(tmp_path)
    with smtp_endpoint(starttls=context) as smtp, pytest.raises(NotDelivered, match=r"(?i)certificate"):
        await a_mail_channel(smtp).send(LETTER)
    assert smtp.mails == []
    with pytest.raises(BadInput, match="would travel in the open"):
        courier(kind="email", host="mail", to=["a@b.example"], security="none", user="fairy", password_env="X")


@pytest.mark.parametrize(("behaviour", "words"), [(HANG, "timed out|did not take"), (SLOW, "did not take the message"), ("550 no such user", "refused every address: no such user"), ("451 later", "451|refused")])
async def test_a_mail_server_that_misbehaves_is_told_in_words_and_within_a_deadline(behaviour, words):
    with smtp_endpoint(behaviour=behaviour) as smtp:
        began = time.monotonic()
        with pytest.raises(NotDelivered, match=words):
            await a_mail_channel(smtp, security="none").send(LETTER)
        assert time.monotonic() - began < 4
    assert smtp.mails == []


async def test_a_wrong_password_and_a_missing_one_are_told_without_being_shown(tmp_path, monkeypatch):
    context, ca = server_tls(tmp_path)
    monkeypatch.setenv("MAIL_PASSWORD", "wrong-one")
    with smtp_endpoint(user="fairy", password="hunter2", starttls=context) as smtp:
        with pytest.raises(NotDelivered, match="does not take the name and password") as told:
            await a_mail_channel(smtp, user="fairy", password_env="MAIL_PASSWORD", ca_file=str(ca)).send(LETTER)
        assert "wrong-one" not in told.value.detail
        with pytest.raises(NotDelivered, match="No such file"):
            await a_mail_channel(smtp, user="fairy", password_file=str(tmp_path / "nothing"), ca_file=str(ca)).send(LETTER)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "pigeon", "url": "http://x"}, {"kind": "webhook"}, {"kind": "webhook", "url": "http://a", "url_env": "B"}, {"kind": "webhook", "url": "file:///etc/passwd"},
        {"kind": "email", "to": ["a@b.c"]}, {"kind": "email", "host": "m", "to": ["not an address"]}, {"kind": "email", "host": "m", "to": ["a@b.c\nBcc: d@e.f"]},
        {"kind": "slack", "url": "http://a", "severity": "awful"}, {"kind": "slack", "url": "http://user:pw@a"}, {"name": "user:kim", "kind": "slack", "url": "http://a"},
        {"kind": "slack", "url": "http://a", "escalate_after": "soon"},
    ],
    ids=str,
)  # fmt: skip
def test_a_channel_that_cannot_work_is_refused_at_the_start(fields):
    with pytest.raises(FairyError) as told:
        courier(**fields)
    assert "pw@" not in told.value.detail


async def test_the_end_of_certificates_is_read_from_files_and_from_servers(tmp_path):
    context, ca = server_tls(tmp_path)
    with smtp_endpoint() as plain:
        found = await look_at([str(ca), str(tmp_path / "nothing.pem"), f"127.0.0.1:{plain.port}", f"127.0.0.1:{closed_port()}"])
    assert found[0].ends_at is not None
    assert [one.ends_at for one in found[1:]] == [None, None, None]
    assert all(one.trouble for one in found[1:])
    with tls_echo(context) as port:
        [served] = await look_at([f"127.0.0.1:{port}"])
    assert served.ends_at is not None, served.trouble


@contextlib.contextmanager
def tls_echo(context):
    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with contextlib.suppress(OSError), context.wrap_socket(self.request, server_side=True) as secure:
                secure.recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
