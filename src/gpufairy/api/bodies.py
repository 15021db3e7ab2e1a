"""What each route reads: the model of its body, in one table. A test holds it against what the routes really read."""
from pydantic import BaseModel

from gpufairy.api.policy import API
from gpufairy.wire.alerts import SilenceBody, UserChannelBody
from gpufairy.wire.apps import OpenBody, TicketBody
from gpufairy.wire.bookings import BookingBody
from gpufairy.wire.changes import ImageBody, KeepBody
from gpufairy.wire.classes import ClassBody, ClassChangeBody, LinksBody, ResetBody, RosterBody
from gpufairy.wire.disk_report import DiskReportBody
from gpufairy.wire.gateway import DoorBody, RefusalsBody, SignInBody
from gpufairy.wire.maintenance import WindowBody
from gpufairy.wire.mig import AutoBody, CutBody
from gpufairy.wire.moving import MovedBody, PathsBody, WantedBody
from gpufairy.wire.people import DrainBody, KeyBody, TokenBody, UserBody, UserChangeBody
from gpufairy.wire.pools import PoolBody
from gpufairy.wire.report import AcceptBody, HelloBody, ReportBody
from gpufairy.wire.selftests import IsolationBody
from gpufairy.wire.shares import ShareBody
from gpufairy.wire.submit import StopBody, SubmitBody
from gpufairy.wire.teams import QuotaBody, TeamBody, TeamChangeBody

BODIES: dict[tuple[str, str], type[BaseModel]] = {
    ("POST", f"{API}/sessions"): SubmitBody,
    ("POST", f"{API}/stops"): StopBody,
    ("POST", f"{API}/sessions/{{name}}/keep"): KeepBody,
    ("POST", f"{API}/sessions/{{name}}/swap"): ImageBody,
    ("POST", f"{API}/sessions/{{name}}/commit"): ImageBody,
    ("POST", f"{API}/sessions/{{name}}/apps"): OpenBody,
    ("POST", f"{API}/images/pull"): ImageBody,
    ("POST", f"{API}/images/approve"): ImageBody,
    ("POST", f"{API}/images/refuse"): ImageBody,
    ("POST", f"{API}/nodes/{{name}}/drain"): DrainBody,
    ("PUT", f"{API}/shares"): ShareBody,
    ("POST", f"{API}/pools"): PoolBody,
    ("POST", f"{API}/bookings"): BookingBody,
    ("POST", f"{API}/mig/plan"): CutBody,
    ("POST", f"{API}/mig/apply"): CutBody,
    ("POST", f"{API}/mig/auto"): AutoBody,
    ("POST", f"{API}/selftests/isolation"): IsolationBody,
    ("POST", f"{API}/users"): UserBody,
    ("PATCH", f"{API}/users/{{name}}"): UserChangeBody,
    ("POST", f"{API}/teams"): TeamBody,
    ("PATCH", f"{API}/teams/{{name}}"): TeamChangeBody,
    ("POST", f"{API}/classes"): ClassBody,
    ("PATCH", f"{API}/classes/{{name}}"): ClassChangeBody,
    ("POST", f"{API}/classes/{{name}}/roster"): RosterBody,
    ("POST", f"{API}/classes/{{name}}/reset"): ResetBody,
    ("POST", f"{API}/classes/{{name}}/links"): LinksBody,
    ("PUT", f"{API}/quotas"): QuotaBody,
    ("POST", f"{API}/tokens"): TokenBody,
    ("POST", f"{API}/keys"): KeyBody,
    ("POST", f"{API}/agents/hello"): HelloBody,
    ("POST", f"{API}/agents/{{name}}/accept"): AcceptBody,
    ("POST", f"{API}/agents/{{name}}/reports"): ReportBody,  # signed, as the next
    ("POST", f"{API}/agents/{{name}}/disk"): DiskReportBody,
    ("POST", f"{API}/alerts/silences"): SilenceBody,
    ("POST", f"{API}/nodes/{{name}}/maintenance"): WindowBody,
    ("PUT", f"{API}/messages"): UserChannelBody,
    ("POST", f"{API}/gateway/doors"): DoorBody,
    ("POST", f"{API}/gateway/signin-links"): SignInBody,
    ("POST", f"{API}/gateway/tickets"): TicketBody,
    ("POST", f"{API}/gateway/refusals"): RefusalsBody,
    ("POST", f"{API}/move/past"): MovedBody,
    ("POST", f"{API}/move/readings"): MovedBody,
    ("POST", f"{API}/move/homes/{{user}}/hashes"): PathsBody,
    ("POST", f"{API}/move/homes/{{user}}/read"): WantedBody,
}
RAW_BODIES = {("POST", f"{API}/move/homes/{{user}}/pieces"): "application/octet-stream"}  # read as they are
