"""Settings of the janitor."""
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.leaks import Repair
from gpufairy.wire.read import Strict


class LeaksConfig(Strict):
    """What is held by nobody: seats without containers, containers without seats, GPU memory that no process has."""

    repair: str = "mend"  # what can be put right without harm to anybody who is alive, is; "tell": nothing is touched

    def to_repair(self) -> Repair:
        if self.repair not in set(Repair):
            raise BadInput(f"leaks.repair: found {shown(self.repair)}", f"Write {' or '.join(Repair)}.")
        return Repair(self.repair)
