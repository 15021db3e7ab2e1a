"""Audit: what people changed that is no session's own affair, written down with who did it. Read among the events."""
from gpufairy.control.house import House
from gpufairy.core.steps import deed_event


async def note(house: House, actor: str, about: str, what: str, why: str) -> None:
    """`about`: what it was done to, as `user:kim` or `node:gpu01`. Whoever looks at a page is told that there is something new."""
    await house.store.events.add(deed_event(about, what, house.clock(), why, actor=actor))
    house.bells.sessions_changed([])
