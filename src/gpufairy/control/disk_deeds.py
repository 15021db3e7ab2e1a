"""What people ask about disk use: that it be looked at now, and what is known of one user beside what lies in folders."""
from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.core.disk import Place
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.names import nearest


async def ask_for_walk(house: House, actor: str) -> None:
    """It goes on behind: a walk may take minutes. Agents hear of it with the answer to their next report."""
    house.disk.ask()
    await note(house, actor, "disk:all", "disk_walk_asked", "all places are walked through now")


def made_images_bytes(house: House, user: str) -> int | None:
    """Of images that they made from sessions, as the engine tells it; parts that several share are in each. None: no images here."""
    return None if house.gallery.shelf is None else sum(image.size_bytes for image in house.gallery.made_by(user))


def places_on(house: House, node: str | None) -> list[Place] | None:
    """Those of one machine, the server's own by its name too; None: all."""
    if node is None:
        return None
    own = set() if house.engine.name == "kubernetes" else {one.name for one in house.nodes}
    places = house.disk.all_places()
    found = [place for place in places if place.node == node or (not place.node and node in own)]
    if not found:
        known = sorted({place.node for place in places if place.node} | own)
        raise NoSuchThing(f"no disk of a host {node[:60]!r} is known{nearest(node, known)}", f"Known: {', '.join(known) or 'none'}.")
    return found
