"""Rank: of the seats that fit, which to take. The least harm to those who come later wins."""
from gpufairy.core.room import Room
from gpufairy.core.session import Seat
from gpufairy.core.share import PARTS


def harm(seat: Seat, room: Room) -> tuple[int, int, int, int]:
    """Smaller is better: do not open a whole GPU for a fraction, leave no scraps, fill the fuller node."""
    parts = {gpu.uuid: gpu.parts for gpu in seat.gpus}
    opened = sum(1 for gpu in room.gpus if gpu.is_free and 0 < parts.get(gpu.gpu.uuid, 0) < PARTS)
    scraps = sum(gpu.free_parts - parts[gpu.gpu.uuid] for gpu in room.gpus if gpu.gpu.uuid in parts)
    free_gpu_parts = sum(gpu.free_parts for gpu in room.gpus)
    return opened, scraps, free_gpu_parts, room.cpus_milli
