"""What the API server of Kubernetes says no to, and when it says nothing. Nobody else's errors leave this package."""
from dataclasses import dataclass

from gpufairy.core.errors import EngineRefused, EngineSilent


@dataclass(frozen=True, slots=True)
class Cause:
    """One of several: the field it is about, and what is wrong with it."""

    reason: str
    message: str
    field: str = ""


class KubeRefused(EngineRefused):
    """It answered no."""

    def __init__(
        self, detail: str, next_step: str = "", *, status: int, reason: str, what: str, message: str = "", causes: tuple[Cause, ...] = (),
        request_id: str = "", resume: str = "", retry_after_s: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(detail, next_step)
        self.status, self.reason, self.what = status, reason, what  # 409, "AlreadyExists", "create pod ml/train-0"
        self.message, self.causes = message, causes  # in its own words
        self.request_id = request_id  # under which its audit log has it
        self.resume = resume  # of a list that grew too old: where to go on
        self.retry_after_s = retry_after_s  # it asked to be asked again; None: it did not


class KubeSilent(EngineSilent):
    """No answer, or one that nobody understands: it may have been done or not."""

    def __init__(self, detail: str, next_step: str = "", *, reason: str, what: str, status: int | None = None, sent: bool = True) -> None:
        super().__init__(detail, next_step)
        self.status, self.reason, self.what = status, reason, what  # reason: "timeout", "cut", "unreachable", "certificate", "credentials"
        self.sent = sent  # False: it was never asked, so it was surely not done
