"""Hope: a node on which a request may fit some day, and no sooner than when. Promises look at the nearest first, and seldom at the rest."""
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from gpufairy.core.room import Room
from gpufairy.core.session import Session


class Hope(NamedTuple):
    when: datetime  # at the soonest
    gone: int  # so many at least have left by then; where nobody knows when, of those whose time nobody knows
    room: Room
    holding: Sequence[Session]  # who sits there
