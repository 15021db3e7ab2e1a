"""Admin: the block of backups on the overview. The last one with its size, when the next comes, and a button for one now."""
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.backup import Backups
from gpufairy.core.amounts import show_size
from gpufairy.core.errors import Conflict
from gpufairy.web.context import PageContext
from gpufairy.web.sentences import told
from gpufairy.web.speech import _, ngettext
from gpufairy.web.times import clock, length
from gpufairy.web.words import UNBROKEN, Mark


@dataclass(frozen=True, slots=True)
class BackupBlock:
    mark: Mark
    last: str
    next: str
    where: str
    folder: str
    trouble: str  # of the last try; empty: it went well
    under_way: bool


def backup_block(backups: Backups | None, now: datetime) -> BackupBlock | None:
    """None: in tests of other things."""
    if backups is None:
        return None
    where = ngettext("{count} backup is kept:", "{count} backups are kept:", len(backups.found))
    return BackupBlock(
        mark_of(backups), last_words(backups, now), next_words(backups, now),
        where.format(count=len(backups.found)), str(backups.settings.folder), told(backups.trouble), backups.under_way,
    )  # fmt: skip


def mark_of(backups: Backups) -> Mark:
    if backups.under_way:
        return Mark(_("Under way"), "start")
    if backups.trouble:
        return Mark(_("Failed"), "bad")
    return Mark(_("Verified"), "run") if backups.last is not None else Mark(_("None yet"), "wait")


def last_words(backups: Backups, now: datetime) -> str:
    last = backups.last
    if last is None or last.made_at is None:
        return _("There is no backup yet.")
    size = show_size(last.size_bytes).replace(" ", UNBROKEN)
    return _("The last backup is {age} old: {size}, read back and found whole.").format(age=length(now - last.made_at), size=size)


def next_words(backups: Backups, now: datetime) -> str:
    due = backups.next_at()
    if due is None:
        return _("None is made by itself: [backup] in the settings says every = \"off\".")
    return _("The next is made at {when}.").format(when=clock(max(due, now), now))


async def make_one(context: PageContext, admin: str) -> str:
    """Begun, not waited for: the block says that it is under way, and then how it went."""
    if context.backups is None:
        raise Conflict("there are no backups on this server", "Start it with `fairy up`.")
    context.backups.begin(admin)
    return "/admin"
