"""What a scene is: played so that a server passes a failpoint, with what must have come of it when another server is there."""
import contextlib

from kill_stage import Stage

LONG = "sleep 3600 & wait"


class Scene:
    """`begin` before anything is armed; `play` passes the point, and may be cut short there; `mend` while no server runs; `settle` with the next."""

    passing = 1  # at which passing of the point, from `play` on

    def begin(self, stage: Stage) -> None: ...
    def play(self, stage: Stage) -> None: ...
    def mend(self, stage: Stage) -> None: ...
    def settle(self, stage: Stage) -> None: ...


def begin_start(stage: Stage) -> None:
    """One that may die before it serves."""
    with contextlib.suppress(RuntimeError):
        stage.start()
