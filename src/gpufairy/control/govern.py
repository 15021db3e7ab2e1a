"""What people change about themselves, and admins about all else: done, counted on at once, and written down with who did it.

API and pages call these; whether the caller may is checked before.
"""
from datetime import timedelta

from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.control.registry import PAGE_SCOPE
from gpufairy.control.roster import in_force
from gpufairy.core.agent import Agent
from gpufairy.core.amounts import show_duration, show_size
from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.image import ImageState, MadeImage, image_name
from gpufairy.core.names import label, nearest, node_name
from gpufairy.core.node import Sharing
from gpufairy.core.people import Key, Token, User
from gpufairy.core.quota_rules import Quota
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import ShareRule
from gpufairy.core.ssh_key import parse_key
from gpufairy.core.team import Team
from gpufairy.wire.people import UserBody, UserChangeBody, read_role
from gpufairy.wire.teams import QuotaBody


async def add_user(house: House, actor: str, body: UserBody) -> User:
    team = label(body.team, "team") if body.team else None
    user = await house.registry.add_user(body.name, read_role(body.role), team)
    await note(house, actor, f"user:{user.name}", "user_added", f"role {user.role}, team {user.team or 'none'}")
    return user


async def change_user(house: House, actor: str, name: str, body: UserChangeBody) -> User:
    role = None if body.role is None else read_role(body.role)
    team = label(body.team, "team") if body.team else body.team
    before = house.registry.user(name)
    user = await house.registry.change_user(name, role=role, disabled=body.disabled, team=team, share=body.share)
    house.bells.place.set()  # a share or a team changes whose turn it is
    if user != before:
        await note(house, actor, f"user:{name}", "user_changed", user_words(user))
    return user


def user_words(user: User) -> str:
    shut = ", shut out" if user.disabled else ""
    return f"role {user.role}, team {user.team or 'none'}, share {user.share:g}{shut}"


async def create_token(house: House, actor: str, user: str, *, named: str, scope: str, expires: timedelta | None) -> tuple[Token, str]:
    token, text = await house.registry.create_token(user, label(named, "label"), scope, expires)
    until = "until it is revoked" if expires is None else f"for {show_duration(expires)}"
    await note(house, actor, f"user:{user}", "token_made", f"{named}, {scope}, good {until}")
    return token, text


async def revoke_token(house: House, actor: str, token_id: str) -> None:
    token = house.registry.token(token_id)
    await house.registry.revoke_token(token_id)
    await note(house, actor, f"user:{token.user}", "token_revoked", f"{token.label}, {token.scope}")


async def sign_out_everywhere(house: House, actor: str, user: str) -> int:
    """Every browser of theirs; tokens of the command line and SSH keys stay. How many they were."""
    browsers = [token for token in house.registry.tokens(user) if token.scope == PAGE_SCOPE]
    for token in browsers:
        await house.registry.revoke_token(token.id)
    await note(house, actor, f"user:{user}", "signed_out_everywhere", f"{len(browsers)} browsers")
    return len(browsers)


async def add_key(house: House, actor: str, user: str, text: str) -> Key:
    """It opens from now on: the SSH gateway knows of it when this returns. One that is there already is no change."""
    key = parse_key(text, house.registry.user(user).name, house.clock())
    if await house.keyring.add(key):
        await note(house, actor, f"user:{user}", "key_added", key_words(key))
        await in_force(house)
    return key


async def remove_key(house: House, actor: str, user: str, fingerprint: str) -> None:
    key = await house.keyring.remove(user, fingerprint)
    await note(house, actor, f"user:{user}", "key_removed", key_words(key))
    await in_force(house)


def key_words(key: Key) -> str:
    return f"{key.fingerprint} {key.comment}".strip()


async def add_team(house: House, actor: str, name: str, share: float) -> Team:
    team = await house.teams.add(name, share)
    await note(house, actor, f"team:{name}", "team_added", f"share {team.share:g}")
    return team


async def change_team(house: House, actor: str, name: str, share: float) -> Team:
    team = await house.teams.change(name, share)
    house.bells.place.set()
    await note(house, actor, f"team:{name}", "team_changed", f"share {team.share:g}")
    return team


async def remove_team(house: House, actor: str, name: str) -> None:
    """Only one that nobody is in. Its quotas go with it."""
    await house.teams.remove(name)
    await house.quotas.read_again()
    house.bells.place.set()
    await note(house, actor, f"team:{name}", "team_removed", "nobody was in it")


async def set_quota(house: House, actor: str, body: QuotaBody) -> Quota:
    quota = await house.quotas.set(body.of, body.gpu_kind, body.changed, house.nodes)
    house.bells.place.set()
    house.disk.limits_changed.set()
    await note(house, actor, f"quota:{quota.of}", "quota_set", quota_words(quota))
    return quota


def quota_words(quota: Quota) -> str:
    bounds = [
        "" if quota.gpu_parts is None else f"{quota.gpu_parts / PARTS:g} GPUs",
        "" if quota.gpu_hours_week is None else f"{quota.gpu_hours_week:g} GPU-hours a week",
        "" if quota.sessions is None else f"{quota.sessions} sessions",
        "" if quota.disk_bytes is None else f"{show_size(quota.disk_bytes)} on disk",
    ]
    return f"kind {quota.gpu_kind}: {', '.join(bound for bound in bounds if bound) or 'no bound'}"


async def unset_quota(house: House, actor: str, of: str, gpu_kind: str) -> None:
    await house.quotas.unset(of, gpu_kind)
    house.bells.place.set()
    house.disk.limits_changed.set()
    await note(house, actor, f"quota:{of}", "quota_removed", f"kind {gpu_kind}")


async def set_drained(house: House, actor: str, name: str, why: str | None) -> None:
    """`why=None`: back into use."""
    names = [node.name for node in house.nodes]
    if name not in names and house.watch.host(name) is not None:
        raise Conflict(f"{name} is only watched: no sessions are started there", "To hear no more of it: fairy node forget NAME.")
    if name not in names:
        raise NoSuchThing(f"no node {name[:60]!r}{nearest(name, names)}", "See `fairy node list`.")
    window = house.maintenance.running(name, house.clock())
    if why is None and window is not None and name not in await house.store.nodes.drained():
        found = f"{name} is not drained: it is worked on ({window.why}) until {window.end:%Y-%m-%d %H:%M} UTC"
        raise Conflict(found, f"End that first: fairy node maintenance --end {window.id}.")
    await house.store.nodes.set_drained(name, why)
    await house.look_at_nodes()
    house.bells.place.set()
    await note(house, actor, f"node:{name}", "node_resumed" if why is None else "node_drained", why or "back in use")


async def accept_agent(house: House, actor: str, name: str, fingerprint: str | None) -> Agent:
    agent = await house.agents.accept(node_name(name), fingerprint, actor)
    house.watch.await_first(name)
    await note(house, actor, f"node:{name}", "agent_accepted", "its reports are taken")
    return agent


async def forget_agent(house: House, actor: str, name: str) -> None:
    """Takes no more reports of this host. What it told stays in the history; what lies on its disks is not known any more."""
    await house.agents.remove(name)
    house.watch.forget(name)
    await house.disk.forget_node(name)
    await note(house, actor, f"node:{name}", "agent_forgotten", "no more reports are taken of it")


async def set_sharing(house: House, actor: str, rule: ShareRule) -> None:
    if rule.sharing is Sharing.MPS and house.engine.name == "process":
        raise Conflict("sessions are plain processes here, which nothing holds to a share", "Run them in containers: --engine docker.")
    await house.shares.set(rule, house.found_nodes(), house.book.holding())
    await house.look_at_nodes()
    house.bells.place.set()
    fgpu = "" if rule.fgpu_parts is None else f"{rule.fgpu_parts / PARTS:g} fGPU a GPU"
    said = ", ".join(part for part in (fgpu, f"shared by {rule.sharing}" if rule.sharing else "") if part)
    await note(house, actor, f"share:{rule.of}", "sharing_set", said)


async def clear_sharing(house: House, actor: str, of: str) -> None:
    await house.shares.clear(of, house.found_nodes(), house.book.holding())
    await house.look_at_nodes()
    house.bells.place.set()
    await note(house, actor, f"share:{of}", "sharing_cleared", "the more general rule counts again")


async def decide_image(house: House, actor: str, image: str, state: ImageState) -> MadeImage:
    made = await house.gallery.decide(image_name(image), state, actor)
    await note(house, actor, f"image:{made.name}", f"image_{state}", f"made by {made.owner}")
    return made
