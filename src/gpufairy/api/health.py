"""Routes for machines that watch the server: is it alive, is it ready, a few figures for Prometheus."""
from fastapi import APIRouter
from starlette.responses import JSONResponse, PlainTextResponse

from gpufairy import __version__
from gpufairy.api.context import Context
from gpufairy.core.lifecycle import Phase


def routes(context: Context) -> APIRouter:
    house, router = context.house, APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok", "version": __version__}

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        """Store and engine answer too; 503 with which part does not if not. Anyone may ask, so no more is told than that."""
        wrong = {loop.name: "fails; see the server's log" for loop in context.loops if loop.failing is not None}
        if house.silent_since is not None:
            wrong["engine"] = f"{house.engine.name} does not answer since {house.silent_since:%H:%M:%S} UTC"
        return JSONResponse({"status": "not ready" if wrong else "ready", "wrong": wrong, "version": __version__}, 503 if wrong else 200)

    @router.get("/metrics")
    async def metrics() -> PlainTextResponse:
        """For Prometheus: what this host's exporter would say, live sessions by phase, hosts that report, loops that fail."""
        counts: dict[Phase, int] = dict.fromkeys(Phase, 0)
        for session in house.book:
            counts[session.phase] += 1
        lines = ["# HELP fairy_sessions Live sessions by phase.", "# TYPE fairy_sessions gauge"]
        lines += [f'fairy_sessions{{phase="{phase}"}} {count}' for phase, count in counts.items() if phase is not Phase.ENDED]
        lines += ["# HELP fairy_loop_failing 1 while a control loop fails.", "# TYPE fairy_loop_failing gauge"]
        lines += [f'fairy_loop_failing{{loop="{loop.name}"}} {int(loop.failing is not None)}' for loop in context.loops]
        lines += ["# HELP fairy_node_up 1 while the host reports, 0 while it is silent.", "# TYPE fairy_node_up gauge"]
        lines += [f'fairy_node_up{{node="{seen.node}"}} {int(not seen.silent)}' for seen in house.watch.hosts()]
        lines += ["# HELP fairy_refused_total Turned away, by the limit that was reached.", "# TYPE fairy_refused_total counter"]
        lines += [f'fairy_refused_total{{limit="{limit}"}} {times}' for limit, times in house.refusals.totals().items()]
        lines += ["# HELP fairy_open_streams Answers that stay open: pages, followed logs, terminals.", "# TYPE fairy_open_streams gauge"]
        lines += [f"fairy_open_streams {house.streams.in_all()}"]
        own = ("\n".join(lines) + "\n").encode()
        return PlainTextResponse(context.node_metrics() + own, media_type="text/plain; version=0.0.4")

    return router
