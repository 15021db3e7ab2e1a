"""Every call of the API, by name: the one place on the client's side that knows its paths."""
import math
from collections.abc import Sequence

from gpufairy.client.protocol import ANSWER_LIMIT_S, Call, Record, path_of
from gpufairy.core.errors import BadInput
from gpufairy.core.team import checked_share

IMAGE_LIMIT_S = 1800.0  # many GiB are written, or fetched
CUT_LIMIT_S = 300.0  # a driver takes seconds for each instance, and a minute is waited for one that hangs
CLASS_LIMIT_S = 300.0  # a thousand accounts are made one after the other; a month of a large house is added up
PAGE = 200  # sessions asked for at a time: one answer of some 100 KiB


def submit(body: Record, count: int | None, key: str) -> Call:
    return Call("POST", path_of("sessions"), body if count is None else {**body, "count": count}, key)


def sessions(after: str | None, *, ended: bool, all_users: bool, owner: str | None, state: str | None) -> Call:
    return Call("GET", path_of("sessions", all=ended, all_users=all_users, owner=owner, state=state, limit=PAGE, after=after))


def session(name: str) -> Call:
    return Call("GET", path_of("sessions", name))


def wait(name: str, revision: int, seconds: float) -> Call:
    """Answers when the session's revision differs, or after so many seconds."""
    path = path_of("sessions", name, wait=f"{seconds:g}", unlike=revision)
    return Call("GET", path, limit_s=seconds + ANSWER_LIMIT_S)


def stop(name: str) -> Call:
    return Call("DELETE", path_of("sessions", name))


def stop_all(names: Sequence[str] | None) -> Call:
    return Call("POST", path_of("stops"), {"all": True} if names is None else {"names": list(names)})


def keep(name: str, time: str) -> Call:
    return Call("POST", path_of("sessions", name, "keep"), {"time": time})


def resume_session(name: str) -> Call:
    return Call("POST", path_of("sessions", name, "resume"))


def swap(name: str, image: str) -> Call:
    return Call("POST", path_of("sessions", name, "swap"), {"image": image}, limit_s=IMAGE_LIMIT_S)


def commit(name: str, image: str) -> Call:
    return Call("POST", path_of("sessions", name, "commit"), {"image": image}, limit_s=IMAGE_LIMIT_S)


def open_app(name: str, app: str) -> Call:
    return Call("POST", path_of("sessions", name, "apps"), {"app": app})


def images() -> Call:
    return Call("GET", path_of("images"))


def pull_image(image: str) -> Call:
    return Call("POST", path_of("images", "pull"), {"image": image})


def decide_image(image: str, *, approve: bool) -> Call:
    return Call("POST", path_of("images", "approve" if approve else "refuse"), {"image": image})


def remove_image(image: str) -> Call:
    return Call("DELETE", path_of("images", image=image), limit_s=IMAGE_LIMIT_S)


def logs(name: str, *, follow: bool, from_bytes: int, this_attempt: bool) -> Call:
    return Call("GET", path_of("sessions", name, "logs", follow=follow, from_=from_bytes or None, this_attempt=this_attempt))


def results(name: str) -> Call:
    return Call("GET", path_of("sessions", name, "results"))


def result_files(name: str) -> Call:
    return Call("GET", path_of("sessions", name, "results", "files"))


def session_events(name: str) -> Call:
    return Call("GET", path_of("sessions", name, "events"))


def why(name: str) -> Call:
    return Call("GET", path_of("sessions", name, "why"))


def events(*, follow: bool, after: str | None) -> Call:
    return Call("GET", path_of("events", follow=follow, after=after))


def queue() -> Call:
    return Call("GET", path_of("queue"))


def nodes() -> Call:
    return Call("GET", path_of("nodes"))


def gpus() -> Call:
    return Call("GET", path_of("gpus"))


def shares() -> Call:
    return Call("GET", path_of("shares"))


def set_share(of: str, fgpu: float | None, sharing: str | None) -> Call:
    if fgpu is not None and not math.isfinite(fgpu):  # JSON has no word for it, so the server would complain of JSON
        raise BadInput(f"fgpu: {fgpu} is no number of fGPU", "Write how many fGPU one GPU is, such as 5.")
    return Call("PUT", path_of("shares"), {"of": of, "fgpu": fgpu, "sharing": sharing}, harmless=True)


def clear_share(of: str) -> Call:
    return Call("DELETE", path_of("shares", of=of))


def bookings(since: str | None, until: str | None, *, past: bool) -> Call:
    return Call("GET", path_of("bookings", from_=since, to=until, past=past))


def book(body: Record, key: str) -> Call:
    return Call("POST", path_of("bookings"), body, key)


def cancel_booking(booking_id: str) -> Call:
    return Call("DELETE", path_of("bookings", booking_id))


def mig() -> Call:
    return Call("GET", path_of("mig"))


def mig_plan(gpu: str, want: Sequence[str]) -> Call:
    return Call("POST", path_of("mig", "plan"), {"gpu": gpu, "want": list(want)}, harmless=True, limit_s=CUT_LIMIT_S)


def mig_apply(gpu: str, want: Sequence[str]) -> Call:
    return Call("POST", path_of("mig", "apply"), {"gpu": gpu, "want": list(want)}, harmless=True, limit_s=CUT_LIMIT_S)


def mig_auto(gpus: Sequence[str], on: bool) -> Call:
    return Call("POST", path_of("mig", "auto"), {"gpus": list(gpus), "on": on}, harmless=True)


def isolation_tests() -> Call:
    return Call("GET", path_of("selftests", "isolation"))


def test_isolation(gpu: str | None) -> Call:
    return Call("POST", path_of("selftests", "isolation"), {} if gpu is None else {"gpu": gpu})


def agents() -> Call:
    return Call("GET", path_of("agents"))


def accept_agent(node: str, fingerprint: str | None) -> Call:
    return Call("POST", path_of("agents", node, "accept"), {} if fingerprint is None else {"fingerprint": fingerprint})


def remove_agent(node: str) -> Call:
    return Call("DELETE", path_of("agents", node))


def readings(kind: str, name: str, since: str | None, until: str | None, step: str | None) -> Call:
    return Call("GET", path_of("readings", kind=kind, name=name, since=since, until=until, step=step))


def session_readings(name: str, since: str | None, until: str | None, step: str | None) -> Call:
    return Call("GET", path_of("sessions", name, "readings", since=since, until=until, step=step))


def usage(since: str | None, by: str | None) -> Call:
    return Call("GET", path_of("usage", since=since, by=by))


def advice(session: str | None, user: str | None, all_users: bool) -> Call:
    return Call("GET", path_of("advice", session=session, user=user, all_users=all_users))


def session_summary(name: str) -> Call:
    return Call("GET", path_of("sessions", name, "summary"))


def ledger(since: str | None, until: str | None, by: str | None) -> Call:
    return Call("GET", path_of("ledger", since=since, until=until, by=by))


def drain(node: str, why: str) -> Call:
    return Call("POST", path_of("nodes", node, "drain"), {"why": why})


def resume(node: str) -> Call:
    return Call("POST", path_of("nodes", node, "resume"), {})


def me() -> Call:
    return Call("GET", path_of("me"))


def sign_in_link() -> Call:
    return Call("POST", path_of("signin-links"), {})


def users() -> Call:
    return Call("GET", path_of("users"))


def user(name: str) -> Call:
    return Call("GET", path_of("users", name))


def add_user(body: Record) -> Call:
    return Call("POST", path_of("users"), body)


def change_user(name: str, body: Record) -> Call:
    return Call("PATCH", path_of("users", name), body)


def teams() -> Call:
    return Call("GET", path_of("teams"))


def team(name: str) -> Call:
    return Call("GET", path_of("teams", name))


def add_team(name: str, share: float) -> Call:
    return Call("POST", path_of("teams"), {"name": name, "share": checked_share(share)})


def change_team(name: str, share: float) -> Call:
    return Call("PATCH", path_of("teams", name), {"share": checked_share(share)})


def remove_team(name: str) -> Call:
    return Call("DELETE", path_of("teams", name))


def classes() -> Call:
    return Call("GET", path_of("classes"))


def school_class(name: str) -> Call:
    return Call("GET", path_of("classes", name))


def add_class(body: Record) -> Call:
    return Call("POST", path_of("classes"), body, limit_s=CLASS_LIMIT_S)


def change_class(name: str, body: Record) -> Call:
    return Call("PATCH", path_of("classes", name), body, limit_s=CLASS_LIMIT_S)


def remove_class(name: str) -> Call:
    return Call("DELETE", path_of("classes", name))


def do_to_class(name: str, deed: str, body: Record) -> Call:
    return Call("POST", path_of("classes", name, deed), body, limit_s=CLASS_LIMIT_S)


def hand_ins(name: str) -> Call:
    return Call("GET", path_of("classes", name, "handins"))


def accounting(month: str | None, by: str | None, form: str | None, language: str | None) -> Call:
    return Call("GET", path_of("accounting", month=month, by=by, format=form, language=language), limit_s=CLASS_LIMIT_S)


def disk(user: str | None, node: str | None) -> Call:
    return Call("GET", path_of("disk", user=user, node=node))


def disk_folders(place: str, below: str) -> Call:
    return Call("GET", path_of("disk", "folders", place=place, below=below or None))


def walk_disk() -> Call:
    return Call("POST", path_of("disk", "walks"), harmless=True)


def quotas(user: str | None) -> Call:
    return Call("GET", path_of("quotas", user=user))


def set_quota(body: Record) -> Call:
    return Call("PUT", path_of("quotas"), body, harmless=True)


def unset_quota(of: str, gpu_kind: str | None) -> Call:
    return Call("DELETE", path_of("quotas", of=of, gpu_kind=gpu_kind))


def tokens(user: str | None) -> Call:
    return Call("GET", path_of("tokens", user=user))


def create_token(body: Record) -> Call:
    return Call("POST", path_of("tokens"), body)


def revoke_token(token_id: str) -> Call:
    return Call("DELETE", path_of("tokens", token_id))


def keys(user: str | None) -> Call:
    return Call("GET", path_of("keys", user=user))


def add_key(body: Record) -> Call:
    return Call("POST", path_of("keys"), body)


def remove_key(fingerprint: str, user: str | None) -> Call:
    return Call("DELETE", path_of("keys", fingerprint, user=user))
