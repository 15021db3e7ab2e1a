"""The route by which agents tell what lies on the disks of their hosts, signed as their other reports."""
from typing import Any

from fastapi import APIRouter, Request

from gpufairy.api.agent_stamp import stamp_of
from gpufairy.api.door import whole_body
from gpufairy.control.house import House
from gpufairy.control.intake import Intake
from gpufairy.core.names import node_name
from gpufairy.wire.disk_report import read_disk_report


def add_disk_reports(router: APIRouter, house: House, intake: Intake) -> None:
    @router.post("/{name}/disk")
    async def disk(request: Request, name: str) -> dict[str, Any]:
        """What an agent found in one folder of its host, signed; and which folders it walks through at all."""
        stamp = stamp_of(request)
        intake.check_room()
        body = await whole_body(request)
        house.agents.check(node_name(name), stamp, body)
        with intake.hold(name, len(body)):
            told = read_disk_report(body, name, house.clock(), intake.clock_wrong_by(name))
            await house.disk.take(told)
        return {"kept": told.look is not None or told.failed is not None}
