"""What both clients can do about the doctor: mixed into `Fairy` and `AsyncFairy`."""
from typing import Any

from gpufairy.client.protocol import Call, path_of
from gpufairy.client.transport import Transport

LOOK_LIMIT_S = 40.0  # a driver that hangs is waited for twelve seconds, all else less


def doctor_call(*, last: bool) -> Call:
    return Call("GET", path_of("doctor", last=last), limit_s=LOOK_LIMIT_S)


class DoctorMethods:
    _transport: Transport

    def doctor(self, *, last: bool = False) -> Any:
        """What is wrong with the server's own host: {"at": …, "items": […]}. `last`: as it was found last, without a look now."""
        return self._transport.ask(doctor_call(last=last))


class AsyncDoctorMethods:
    async def _ask(self, call: Call) -> Any:
        raise NotImplementedError

    async def doctor(self, *, last: bool = False) -> Any:
        return await self._ask(doctor_call(last=last))
