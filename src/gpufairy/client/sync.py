"""`Fairy`: the SDK for scripts, notebooks and the command line. Values are plain dicts, JSON as the API gives it.

    with Fairy(url, token) as fairy:
        name = fairy.submit({"gpus": "0.5", "command": ["python", "train.py"]})["name"]
        for chunk in fairy.logs(name, follow=True): ...
"""
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Self

from gpufairy.client import calls
from gpufairy.client.alerts import AlertMethods
from gpufairy.client.backups import BackupMethods
from gpufairy.client.doctor import DoctorMethods
from gpufairy.client.host_care import HostMethods
from gpufairy.client.pools import PoolMethods
from gpufairy.client.protocol import JsonLines, Record, ServerSentEvents, free_of
from gpufairy.client.transport import Transport


class Fairy(AlertMethods, BackupMethods, DoctorMethods, HostMethods, PoolMethods):
    """Not for use by two threads at once: give each its own, by `again()`."""

    def __init__(self, url: str, token: str | None = None, limit_s: float | None = None) -> None:
        self._transport = Transport(url, token, limit_s)
        self._token = token

    @property
    def url(self) -> str:
        return self._transport.url

    def again(self) -> "Fairy":
        """Another one to the same server as the same user."""
        return Fairy(self.url, self._token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def submit(self, body: Record, count: int | None = None, key: str | None = None) -> Any:
        """The session; with `count` all of them, as {"items": […]}. Sent twice with the same key it is one submit."""
        return self._transport.ask(calls.submit(body, count, key or uuid.uuid4().hex))

    def sessions(
        self, *, ended: bool = False, all_users: bool = False, owner: str | None = None, state: str | None = None
    ) -> Iterator[Record]:
        after: str | None = None
        while True:
            page = self._transport.ask(calls.sessions(after, ended=ended, all_users=all_users, owner=owner, state=state))
            yield from page["items"]
            after = page.get("next")
            if after is None:
                return

    def session(self, name: str) -> Any:
        return self._transport.ask(calls.session(name))

    def wait(self, name: str, revision: int, seconds: float) -> Any:
        """The session as soon as its revision differs, or as it is after so many seconds."""
        return self._transport.ask(calls.wait(name, revision, seconds))

    def stop(self, name: str) -> Any:
        return self._transport.ask(calls.stop(name))

    def stop_all(self, names: Sequence[str] | None = None) -> Any:
        """All of these at once, or all of one's own: {"items": […], "missing": […]}."""
        return self._transport.ask(calls.stop_all(names))

    def keep(self, name: str, time: str) -> Any:
        """Let it run at least so long from now."""
        return self._transport.ask(calls.keep(name, time))

    def resume_session(self, name: str) -> Any:
        """The new session: as the one that is over, from the image that was kept of it if there is one."""
        return self._transport.ask(calls.resume_session(name))

    def swap(self, name: str, image: str) -> Any:
        return self._transport.ask(calls.swap(name, image))

    def commit(self, name: str, image: str) -> Any:
        """The image that was made, with the packages that came and went."""
        return self._transport.ask(calls.commit(name, image))

    def open_app(self, name: str, app: str) -> Any:
        """Starts it if need be. Its "url" opens it in a browser, once, within a minute."""
        return self._transport.ask(calls.open_app(name, app))

    def images(self) -> Any:
        return self._transport.ask(calls.images())["items"]

    def pull_image(self, image: str) -> Iterator[Record]:
        """How far it is, until {"done": true} or {"error": …}."""
        lines = JsonLines()
        for chunk in self._transport.stream(calls.pull_image(image)):
            yield from lines.feed(chunk)

    def decide_image(self, image: str, approve: bool) -> Any:
        return self._transport.ask(calls.decide_image(image, approve=approve))

    def remove_image(self, image: str) -> None:
        self._transport.ask(calls.remove_image(image))

    def logs(self, name: str, follow: bool = False, from_bytes: int = 0, *, this_attempt: bool = False) -> Iterator[bytes]:
        return self._transport.stream(calls.logs(name, follow=follow, from_bytes=from_bytes, this_attempt=this_attempt))

    def results(self, name: str) -> Iterator[bytes]:
        """A tar stream; nothing at all when the session wrote no results."""
        return self._transport.stream(calls.results(name))

    def result_files(self, name: str) -> Any:
        """Which files they are, with their sizes."""
        return self._transport.ask(calls.result_files(name))

    def session_events(self, name: str) -> Any:
        return self._transport.ask(calls.session_events(name))["items"]

    def why(self, name: str) -> Any:
        return self._transport.ask(calls.why(name))

    def events(self, follow: bool = False, after: str | None = None) -> Iterator[Record]:
        """What happened of late, or since the event numbered `after`; with `follow` what happens from then on, without end."""
        if follow:
            reader = ServerSentEvents()
            for chunk in self._transport.stream(calls.events(follow=True, after=after)):
                yield from reader.feed(chunk)
            return
        while True:
            page = self._transport.ask(calls.events(follow=False, after=after))
            yield from page["items"]
            after = page.get("next")
            if after is None:
                return

    def queue(self) -> Any:
        return self._transport.ask(calls.queue())

    def nodes(self) -> Any:
        return self._transport.ask(calls.nodes())["items"]

    def gpus(self) -> Any:
        return self._transport.ask(calls.gpus())["items"]

    def shares(self) -> Any:
        return self._transport.ask(calls.shares())

    def set_share(self, of: str, fgpu: float | None = None, sharing: str | None = None) -> Any:
        return self._transport.ask(calls.set_share(of, fgpu, sharing))

    def clear_share(self, of: str) -> Any:
        return self._transport.ask(calls.clear_share(of))

    def bookings(self, since: str | None = None, until: str | None = None, past: bool = False) -> Any:
        """Those that are not over; with `past` or an earlier `since` those before, too. Times as in 2026-11-20T14:00:00Z."""
        return self._transport.ask(calls.bookings(since, until, past=past))["items"]

    def book(self, body: Record, key: str | None = None) -> Any:
        """{"gpus": 4, "title": "CS231n", "from": "2026-11-20T14:00:00Z", "time": "2h"}: sent twice with the same key it is one booking."""
        return self._transport.ask(calls.book(body, key or uuid.uuid4().hex))

    def cancel_booking(self, booking_id: str) -> Any:
        return self._transport.ask(calls.cancel_booking(booking_id))

    def free(self) -> list[Record]:
        return free_of(self.nodes())

    def mig(self) -> Any:
        return self._transport.ask(calls.mig())["items"]

    def mig_plan(self, gpu: str, want: Sequence[str]) -> Any:
        """Where the wanted profiles would go, and which idle instances would go for them."""
        return self._transport.ask(calls.mig_plan(gpu, want))

    def mig_apply(self, gpu: str, want: Sequence[str]) -> Any:
        return self._transport.ask(calls.mig_apply(gpu, want))

    def mig_auto(self, gpus: Sequence[str], on: bool) -> Any:
        return self._transport.ask(calls.mig_auto(gpus, on))

    def isolation_tests(self) -> Any:
        """What the last self-test of each GPU found enforced."""
        return self._transport.ask(calls.isolation_tests())["items"]

    def test_isolation(self, gpu: str | None = None) -> Iterator[Record]:
        """How far it is, {"test": …} or {"untested": …} for each GPU, until {"done": true} or {"error": …}."""
        lines = JsonLines()
        for chunk in self._transport.stream(calls.test_isolation(gpu)):
            yield from lines.feed(chunk)

    def agents(self) -> Any:
        return self._transport.ask(calls.agents())["items"]

    def accept_agent(self, node: str, fingerprint: str | None = None) -> Any:
        return self._transport.ask(calls.accept_agent(node, fingerprint))

    def remove_agent(self, node: str) -> None:
        self._transport.ask(calls.remove_agent(node))

    def readings(self, kind: str, name: str, since: str | None = None, until: str | None = None, step: str | None = None) -> Any:
        """How hard a "gpu", "node", "user" or "session" worked, over time: columns beside "times", None where not known."""
        return self._transport.ask(calls.readings(kind, name, since, until, step))

    def session_readings(self, name: str, since: str | None = None, until: str | None = None, step: str | None = None) -> Any:
        return self._transport.ask(calls.session_readings(name, since, until, step))

    def usage(self, since: str | None = None, by: str | None = None) -> Any:
        """GPU-hours by "user", "session", "gpu" or "node"."""
        return self._transport.ask(calls.usage(since, by))

    def advice(self, session: str | None = None, *, user: str | None = None, all_users: bool = False) -> Any:
        """What could be better, with its figures: of your sessions that run, or of one."""
        return self._transport.ask(calls.advice(session, user, all_users))

    def session_summary(self, name: str) -> Any:
        """Of one that is over: what it held and used, and what would have sufficed."""
        return self._transport.ask(calls.session_summary(name))

    def ledger(self, since: str | None = None, until: str | None = None, by: str | None = None) -> Any:
        """By "user" or "team": GPU-hours held, entitled, and ahead (below 0: behind)."""
        return self._transport.ask(calls.ledger(since, until, by))

    def drain(self, node: str, why: str = "") -> Any:
        return self._transport.ask(calls.drain(node, why))

    def resume(self, node: str) -> Any:
        return self._transport.ask(calls.resume(node))

    def me(self) -> Any:
        return self._transport.ask(calls.me())

    def sign_in_link(self) -> str:
        """Opens the page signed in as you, once, within an hour."""
        return str(self._transport.ask(calls.sign_in_link())["url"])

    def users(self) -> Any:
        return self._transport.ask(calls.users())["items"]

    def user(self, name: str) -> Any:
        return self._transport.ask(calls.user(name))

    def add_user(self, body: Record) -> Any:
        return self._transport.ask(calls.add_user(body))

    def change_user(self, name: str, body: Record) -> Any:
        return self._transport.ask(calls.change_user(name, body))

    def teams(self) -> Any:
        return self._transport.ask(calls.teams())["items"]

    def team(self, name: str) -> Any:
        return self._transport.ask(calls.team(name))

    def add_team(self, name: str, share: float = 1.0) -> Any:
        return self._transport.ask(calls.add_team(name, share))

    def change_team(self, name: str, share: float) -> Any:
        return self._transport.ask(calls.change_team(name, share))

    def remove_team(self, name: str) -> None:
        self._transport.ask(calls.remove_team(name))

    def classes(self) -> Any:
        return (self._transport.ask(calls.classes()))["items"]

    def school_class(self, name: str) -> Any:
        return self._transport.ask(calls.school_class(name))

    def add_class(self, body: Record) -> Any:
        """Of a roster, which is a file as base64. With "dry_run" only what it would do."""
        return self._transport.ask(calls.add_class(body))

    def change_class(self, name: str, body: Record) -> Any:
        return self._transport.ask(calls.change_class(name, body))

    def remove_class(self, name: str) -> None:
        self._transport.ask(calls.remove_class(name))

    def do_to_class(self, name: str, deed: str, body: Record) -> Any:
        """`deed`: "roster", "reset", "archive" or "links"."""
        return self._transport.ask(calls.do_to_class(name, deed, body))

    def hand_ins(self, name: str) -> Iterator[bytes]:
        """A tar stream; nothing at all when nobody has handed anything in."""
        return self._transport.stream(calls.hand_ins(name))

    def accounting(self, month: str | None = None, by: str | None = None) -> Any:
        return self._transport.ask(calls.accounting(month, by, None, None))

    def month_report(self, month: str | None, by: str | None, form: str, language: str | None = None) -> Iterator[bytes]:
        """The same as "csv", or as a page to print: "html"."""
        return self._transport.stream(calls.accounting(month, by, form, language))

    def disk(self, user: str | None = None, node: str | None = None) -> Any:
        """What is yours on disk, or a user's; admins without a user: everybody's. With `node` only what lies on that host."""
        return self._transport.ask(calls.disk(user, node))

    def disk_folders(self, place: str, below: str = "") -> Any:
        return self._transport.ask(calls.disk_folders(place, below))

    def walk_disk(self) -> Any:
        return self._transport.ask(calls.walk_disk())

    def quotas(self, user: str | None = None) -> Any:
        """Those that count for you, or for `user`; admins without a user: all."""
        return self._transport.ask(calls.quotas(user))["items"]

    def set_quota(self, body: Record) -> Any:
        """{"of": "user:ann", "gpus": 4, "gpu_hours": 100, "sessions": 5, "gpu_kind": "A100"}: what is left out stays, "none" lifts it."""
        return self._transport.ask(calls.set_quota(body))

    def unset_quota(self, of: str, gpu_kind: str | None = None) -> None:
        self._transport.ask(calls.unset_quota(of, gpu_kind))

    def tokens(self, user: str | None = None) -> Any:
        return self._transport.ask(calls.tokens(user))["items"]

    def create_token(self, body: Record) -> Any:
        """With the token itself under "token": shown this once and never again."""
        return self._transport.ask(calls.create_token(body))

    def revoke_token(self, token_id: str) -> None:
        self._transport.ask(calls.revoke_token(token_id))

    def keys(self, user: str | None = None) -> Any:
        return self._transport.ask(calls.keys(user))["items"]

    def add_key(self, body: Record) -> Any:
        return self._transport.ask(calls.add_key(body))

    def remove_key(self, fingerprint: str, user: str | None = None) -> None:
        self._transport.ask(calls.remove_key(fingerprint, user))
