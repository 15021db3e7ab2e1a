"""The link of a class: asks before it lets a student in, so that a program which only looks at links does not use it up."""
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gpufairy.control.class_links import link_of, use_link
from gpufairy.core.errors import Conflict, NotAllowed, NotSignedIn
from gpufairy.core.people import Role
from gpufairy.engines.archive import tar_stream
from gpufairy.web.context import PageContext
from gpufairy.web.forms import caller_of, fields_of
from gpufairy.web.pages import how_to_sign_in, show
from gpufairy.web.sign_in import signed_in
from gpufairy.web.speech import _
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import clock_words

NOT_KNOWN = 401
LONGEST_CODE = 100


def add_join(router: APIRouter, context: PageContext) -> None:
    house = context.house

    @router.get("/join")
    async def look(request: Request, code: str = "") -> Response:
        try:
            link = await link_of(house, code[:LONGEST_CODE])
        except NotSignedIn as error:
            return refused(request, error)
        taught, now = house.classes.named(link.of), house.clock()
        answer = _("You are {user} in class {name}.").format(user=link.user, name=link.of)
        when = _("It runs from {start} to {end}.").format(start=clock_words(taught.start, now), end=clock_words(taught.end, now))
        return show("join.html", user=None, answer=answer, when=when, code=code[:LONGEST_CODE])

    @router.post("/join")
    async def join(request: Request) -> Response:
        fields = await fields_of(request, context.url)
        try:
            user = await use_link(house, fields.get("code", "")[:LONGEST_CODE])
        except NotSignedIn as error:
            return refused(request, error)
        return await signed_in(house.registry, user, context.url, "/account")

    def refused(request: Request, error: NotSignedIn) -> Response:
        trouble = Trouble("oidc", error.detail, error.next_step)  # above all ways to sign in
        return how_to_sign_in(context, request, NOT_KNOWN, _("You are not signed in."), trouble=trouble)


def add_hand_ins(router: APIRouter, context: PageContext) -> None:
    @router.get("/classes/{name}/handins")
    async def hand_ins(request: Request, name: str) -> Response:
        """A tar file, for admins and the teachers of the class."""
        user, classes = caller_of(request).user, context.house.classes
        taught = classes.named(name)
        if user.role is not Role.ADMIN and user.name not in taught.teachers:
            raise NotAllowed(f"class {taught.name} is not taught by {user.name}", "Ask its teacher, or an admin.")
        if classes.folders is None:
            raise Conflict("hand-ins are not on this machine's disk", "See where the engine keeps them.")
        headers = {"Content-Disposition": f'attachment; filename="{taught.name}-handins.tar"', "Cache-Control": "no-store"}
        return StreamingResponse(tar_stream(classes.folders.hand_ins, taught.name), media_type="application/x-tar", headers=headers)
