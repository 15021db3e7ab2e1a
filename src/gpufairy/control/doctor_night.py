"""The doctor by night: once a day it looks by itself, and mends nothing. What newly fails is told to the alerts; the last look is kept."""
import json
import logging
from collections.abc import Sequence
from datetime import datetime, time

from gpufairy.control.audit import note
from gpufairy.control.doctor import Checkup, Doctor
from gpufairy.control.house import House
from gpufairy.core.doctor_night import Nights, Trouble, after_look, after_night, began, ended, nights_from_plain, nights_to_plain
from gpufairy.core.doctor_shape import finding_shape, shaped_finding
from gpufairy.core.errors import FairyError
from gpufairy.core.upkeep import is_due

log = logging.getLogger("gpufairy.doctor")

KEPT = "doctor_last"  # in the meta table: the last look, whoever asked for it
NIGHTS = "doctor_nights"  # and what the nights so far have shown


class NightRounds:
    """`nightly`: at which hour of the machine's clock; None: only when asked."""

    def __init__(self, house: House, doctor: Doctor, nightly: time | None) -> None:
        self._house, self._doctor, self._nightly = house, doctor, nightly
        self._started = house.clock()
        self._tried_at: datetime | None = None
        self._nights = Nights()
        doctor.nightly, doctor.on_look = nightly, self._looked

    async def load(self) -> None:
        if (kept := await self._house.store.meta.get(KEPT)) is not None:
            told = json.loads(kept)
            self._doctor.last = Checkup(datetime.fromisoformat(told["at"]), tuple(shaped_finding(one) for one in told["items"]))
        if (nights := await self._house.store.meta.get(NIGHTS)) is not None:
            self._nights = nights_from_plain(json.loads(nights))

    def troubles(self) -> Sequence[Trouble] | None:
        """For the alerts. None: nobody looks by night, or nobody has yet."""
        return None if self._nightly is None or self._nights.looked_at is None else self._nights.troubles

    async def look(self) -> None:
        """A loop's turn."""
        now, last = self._house.clock(), self._tried_at or self._nights.looked_at
        if not is_due(None if last is None else last.astimezone(), self._started.astimezone(), now.astimezone(), self._nightly):
            return
        self._tried_at = now  # once a night, however it goes: one who cannot look at all is no reason to call the server ill
        try:
            found = await self._doctor.checkup(anew=True)
            await self._became(after_night(self._nights, found.findings, now))
        except FairyError as error:
            log.warning("the doctor's look by night failed: %s %s", error.detail, error.next_step)

    async def _looked(self, checkup: Checkup) -> None:
        """After each look, also one that was asked for."""
        told = {"at": checkup.at.isoformat(), "items": [finding_shape(one) for one in checkup.findings]}
        try:
            await self._house.store.meta.put(KEPT, json.dumps(told))
            await self._became(after_look(self._nights, checkup.findings))
        except FairyError as error:  # whoever asked is told all the same: a database that cannot be written is what they look for
            log.warning("what the doctor found is not kept: %s %s", error.detail, error.next_step)

    async def _became(self, after: Nights) -> None:
        before, self._nights = self._nights, after
        if before == after:
            return
        await self._house.store.meta.put(NIGHTS, json.dumps(nights_to_plain(after)))
        if failing := began(before, after):
            await note(self._house, "", "server:doctor", "doctor_found", f"fails now: {', '.join(failing)}")
        if well := ended(before, after):
            await note(self._house, "", "server:doctor", "doctor_found", f"well again: {', '.join(well)}")
