"""`AsyncFairy`: the same methods as `Fairy`, on aiohttp, for programs that live in an event loop. Safe for many tasks at once.

Kept apart from sync.py because importing aiohttp takes longer than most commands do.
"""
import ssl
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import aiohttp

from gpufairy.client import calls
from gpufairy.client.alerts import AsyncAlertMethods
from gpufairy.client.backups import AsyncBackupMethods
from gpufairy.client.doctor import AsyncDoctorMethods
from gpufairy.client.errors import ServerNotReached
from gpufairy.client.host_care import AsyncHostMethods
from gpufairy.client.pools import AsyncPoolMethods
from gpufairy.client.protocol import (
    IS_IT_RUNNING,
    Call,
    JsonLines,
    Record,
    ServerSentEvents,
    checked_token,
    free_of,
    parse_url,
    problem_of,
    read_answer,
)
from gpufairy.client.transport import CHUNK_BYTES, CONNECT_LIMIT_S
from gpufairy.wire.tls import trust_machine


class AsyncFairy(AsyncAlertMethods, AsyncBackupMethods, AsyncDoctorMethods, AsyncHostMethods, AsyncPoolMethods):
    """`async with AsyncFairy(url, token) as fairy`: it is made and closed inside the loop."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.strip().rstrip("/")
        parse_url(self.url)
        self._token = None if token is None else checked_token(token, "the token given")
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def submit(self, body: Record, count: int | None = None, key: str | None = None) -> Any:
        return await self._ask(calls.submit(body, count, key or uuid.uuid4().hex))

    async def sessions(
        self, *, ended: bool = False, all_users: bool = False, owner: str | None = None, state: str | None = None
    ) -> AsyncIterator[Record]:
        after: str | None = None
        while True:
            page = await self._ask(calls.sessions(after, ended=ended, all_users=all_users, owner=owner, state=state))
            for session in page["items"]:
                yield session
            after = page.get("next")
            if after is None:
                return

    async def session(self, name: str) -> Any:
        return await self._ask(calls.session(name))

    async def wait(self, name: str, revision: int, seconds: float) -> Any:
        return await self._ask(calls.wait(name, revision, seconds))

    async def stop(self, name: str) -> Any:
        return await self._ask(calls.stop(name))

    async def stop_all(self, names: Sequence[str] | None = None) -> Any:
        return await self._ask(calls.stop_all(names))

    async def keep(self, name: str, time: str) -> Any:
        return await self._ask(calls.keep(name, time))

    async def resume_session(self, name: str) -> Any:
        return await self._ask(calls.resume_session(name))

    async def swap(self, name: str, image: str) -> Any:
        return await self._ask(calls.swap(name, image))

    async def commit(self, name: str, image: str) -> Any:
        return await self._ask(calls.commit(name, image))

    async def open_app(self, name: str, app: str) -> Any:
        return await self._ask(calls.open_app(name, app))

    async def images(self) -> Any:
        return (await self._ask(calls.images()))["items"]

    async def pull_image(self, image: str) -> AsyncIterator[Record]:
        lines = JsonLines()
        async for chunk in self._stream(calls.pull_image(image)):
            for record in lines.feed(chunk):
                yield record

    async def decide_image(self, image: str, approve: bool) -> Any:
        return await self._ask(calls.decide_image(image, approve=approve))

    async def remove_image(self, image: str) -> None:
        await self._ask(calls.remove_image(image))

    def logs(self, name: str, follow: bool = False, from_bytes: int = 0, *, this_attempt: bool = False) -> AsyncIterator[bytes]:
        return self._stream(calls.logs(name, follow=follow, from_bytes=from_bytes, this_attempt=this_attempt))

    def results(self, name: str) -> AsyncIterator[bytes]:
        return self._stream(calls.results(name))

    async def result_files(self, name: str) -> Any:
        return await self._ask(calls.result_files(name))

    async def session_events(self, name: str) -> Any:
        return (await self._ask(calls.session_events(name)))["items"]

    async def why(self, name: str) -> Any:
        return await self._ask(calls.why(name))

    async def events(self, follow: bool = False, after: str | None = None) -> AsyncIterator[Record]:
        if follow:
            reader = ServerSentEvents()
            async for chunk in self._stream(calls.events(follow=True, after=after)):
                for event in reader.feed(chunk):
                    yield event
            return
        while True:
            page = await self._ask(calls.events(follow=False, after=after))
            for event in page["items"]:
                yield event
            after = page.get("next")
            if after is None:
                return

    async def queue(self) -> Any:
        return await self._ask(calls.queue())

    async def nodes(self) -> Any:
        return (await self._ask(calls.nodes()))["items"]

    async def gpus(self) -> Any:
        return (await self._ask(calls.gpus()))["items"]

    async def shares(self) -> Any:
        return await self._ask(calls.shares())

    async def set_share(self, of: str, fgpu: float | None = None, sharing: str | None = None) -> Any:
        return await self._ask(calls.set_share(of, fgpu, sharing))

    async def clear_share(self, of: str) -> Any:
        return await self._ask(calls.clear_share(of))

    async def bookings(self, since: str | None = None, until: str | None = None, past: bool = False) -> Any:
        return (await self._ask(calls.bookings(since, until, past=past)))["items"]

    async def book(self, body: Record, key: str | None = None) -> Any:
        return await self._ask(calls.book(body, key or uuid.uuid4().hex))

    async def cancel_booking(self, booking_id: str) -> Any:
        return await self._ask(calls.cancel_booking(booking_id))

    async def free(self) -> list[Record]:
        return free_of(await self.nodes())

    async def mig(self) -> Any:
        return (await self._ask(calls.mig()))["items"]

    async def mig_plan(self, gpu: str, want: Sequence[str]) -> Any:
        return await self._ask(calls.mig_plan(gpu, want))

    async def mig_apply(self, gpu: str, want: Sequence[str]) -> Any:
        return await self._ask(calls.mig_apply(gpu, want))

    async def mig_auto(self, gpus: Sequence[str], on: bool) -> Any:
        return await self._ask(calls.mig_auto(gpus, on))

    async def isolation_tests(self) -> Any:
        return (await self._ask(calls.isolation_tests()))["items"]

    async def test_isolation(self, gpu: str | None = None) -> AsyncIterator[Record]:
        lines = JsonLines()
        async for chunk in self._stream(calls.test_isolation(gpu)):
            for record in lines.feed(chunk):
                yield record

    async def agents(self) -> Any:
        return (await self._ask(calls.agents()))["items"]

    async def accept_agent(self, node: str, fingerprint: str | None = None) -> Any:
        return await self._ask(calls.accept_agent(node, fingerprint))

    async def remove_agent(self, node: str) -> None:
        await self._ask(calls.remove_agent(node))

    async def readings(self, kind: str, name: str, since: str | None = None, until: str | None = None, step: str | None = None) -> Any:
        """How hard a "gpu", "node", "user" or "session" worked, over time: columns beside "times", None where not known."""
        return await self._ask(calls.readings(kind, name, since, until, step))

    async def session_readings(self, name: str, since: str | None = None, until: str | None = None, step: str | None = None) -> Any:
        return await self._ask(calls.session_readings(name, since, until, step))

    async def usage(self, since: str | None = None, by: str | None = None) -> Any:
        """GPU-hours by "user", "session", "gpu" or "node"."""
        return await self._ask(calls.usage(since, by))

    async def advice(self, session: str | None = None, *, user: str | None = None, all_users: bool = False) -> Any:
        """What could be better, with its figures: of your sessions that run, or of one."""
        return await self._ask(calls.advice(session, user, all_users))

    async def session_summary(self, name: str) -> Any:
        """Of one that is over: what it held and used, and what would have sufficed."""
        return await self._ask(calls.session_summary(name))

    async def ledger(self, since: str | None = None, until: str | None = None, by: str | None = None) -> Any:
        """By "user" or "team": GPU-hours held, entitled, and ahead (below 0: behind)."""
        return await self._ask(calls.ledger(since, until, by))

    async def drain(self, node: str, why: str = "") -> Any:
        return await self._ask(calls.drain(node, why))

    async def resume(self, node: str) -> Any:
        return await self._ask(calls.resume(node))

    async def me(self) -> Any:
        return await self._ask(calls.me())

    async def sign_in_link(self) -> str:
        return str((await self._ask(calls.sign_in_link()))["url"])

    async def users(self) -> Any:
        return (await self._ask(calls.users()))["items"]

    async def user(self, name: str) -> Any:
        return await self._ask(calls.user(name))

    async def add_user(self, body: Record) -> Any:
        return await self._ask(calls.add_user(body))

    async def change_user(self, name: str, body: Record) -> Any:
        return await self._ask(calls.change_user(name, body))

    async def teams(self) -> Any:
        return (await self._ask(calls.teams()))["items"]

    async def team(self, name: str) -> Any:
        return await self._ask(calls.team(name))

    async def add_team(self, name: str, share: float = 1.0) -> Any:
        return await self._ask(calls.add_team(name, share))

    async def change_team(self, name: str, share: float) -> Any:
        return await self._ask(calls.change_team(name, share))

    async def remove_team(self, name: str) -> None:
        await self._ask(calls.remove_team(name))

    async def classes(self) -> Any:
        return (await self._ask(calls.classes()))["items"]

    async def school_class(self, name: str) -> Any:
        return await self._ask(calls.school_class(name))

    async def add_class(self, body: Record) -> Any:
        """Of a roster, which is a file as base64. With "dry_run" only what it would do."""
        return await self._ask(calls.add_class(body))

    async def change_class(self, name: str, body: Record) -> Any:
        return await self._ask(calls.change_class(name, body))

    async def remove_class(self, name: str) -> None:
        await self._ask(calls.remove_class(name))

    async def do_to_class(self, name: str, deed: str, body: Record) -> Any:
        """`deed`: "roster", "reset", "archive" or "links"."""
        return await self._ask(calls.do_to_class(name, deed, body))

    def hand_ins(self, name: str) -> AsyncIterator[bytes]:
        """A tar stream; nothing at all when nobody has handed anything in."""
        return self._stream(calls.hand_ins(name))

    async def accounting(self, month: str | None = None, by: str | None = None) -> Any:
        return await self._ask(calls.accounting(month, by, None, None))

    def month_report(self, month: str | None, by: str | None, form: str, language: str | None = None) -> AsyncIterator[bytes]:
        """The same as "csv", or as a page to print: "html"."""
        return self._stream(calls.accounting(month, by, form, language))

    async def disk(self, user: str | None = None, node: str | None = None) -> Any:
        """What is yours on disk, or a user's; admins without a user: everybody's. With `node` only what lies on that host."""
        return await self._ask(calls.disk(user, node))

    async def disk_folders(self, place: str, below: str = "") -> Any:
        return await self._ask(calls.disk_folders(place, below))

    async def walk_disk(self) -> Any:
        return await self._ask(calls.walk_disk())

    async def quotas(self, user: str | None = None) -> Any:
        return (await self._ask(calls.quotas(user)))["items"]

    async def set_quota(self, body: Record) -> Any:
        return await self._ask(calls.set_quota(body))

    async def unset_quota(self, of: str, gpu_kind: str | None = None) -> None:
        await self._ask(calls.unset_quota(of, gpu_kind))

    async def tokens(self, user: str | None = None) -> Any:
        return (await self._ask(calls.tokens(user)))["items"]

    async def create_token(self, body: Record) -> Any:
        return await self._ask(calls.create_token(body))

    async def revoke_token(self, token_id: str) -> None:
        await self._ask(calls.revoke_token(token_id))

    async def keys(self, user: str | None = None) -> Any:
        return (await self._ask(calls.keys(user)))["items"]

    async def add_key(self, body: Record) -> Any:
        return await self._ask(calls.add_key(body))

    async def remove_key(self, fingerprint: str, user: str | None = None) -> None:
        await self._ask(calls.remove_key(fingerprint, user))

    async def _ask(self, call: Call) -> Any:
        try:
            return await self._ask_once(call)
        except aiohttp.ServerDisconnectedError:
            if not call.repeatable:  # whether it was done is in doubt, so the caller must hear of it
                raise ServerNotReached(f"the server at {self.url} hung up without an answer", "See whether it was done.") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._not_reached(error) from error
        try:
            return await self._ask_once(call)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._not_reached(error) from error

    async def _ask_once(self, call: Call) -> Any:
        limit = aiohttp.ClientTimeout(total=call.limit_s, connect=CONNECT_LIMIT_S)
        async with self._send(call, limit) as response:
            return read_answer(response.status, response.headers.get("Location"), await response.read())

    async def _stream(self, call: Call) -> AsyncIterator[bytes]:
        limit = aiohttp.ClientTimeout(total=None, connect=CONNECT_LIMIT_S)
        try:
            async with self._send(call, limit) as response:
                if response.status >= 300:
                    raise problem_of(response.status, response.headers.get("Location"), await response.content.read(CHUNK_BYTES))
                async for chunk in response.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._not_reached(error) from error

    def _send(self, call: Call, limit: aiohttp.ClientTimeout) -> Any:
        if self._http is None:
            self._http = aiohttp.ClientSession(auto_decompress=False)
        tls = trust_machine() if self.url.startswith("https:") else True
        return self._http.request(
            call.method, self.url + call.path, data=call.payload(), headers=call.headers(self._token), timeout=limit, ssl=tls,
            allow_redirects=False,
        )  # fmt: skip

    def _not_reached(self, error: Exception) -> ServerNotReached:
        cause = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
        found = str(cause) or type(cause).__name__
        return ServerNotReached(f"no answer from the server at {self.url}: {found}", IS_IT_RUNNING)
