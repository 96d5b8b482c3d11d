"""The studio as a web application: its front page, its jobs, and the ways of holder, officer and learner."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import Scope

from radoboost import serving
from radoboost.errors import ArgumentError, RadoError
from radoboost.studio import holder_routes, learner_routes, officer_routes
from radoboost.studio.jobs import Job
from radoboost.studio.rendering import Here, Sent, Studio, redirect_to, render_studio_page, studio_templates, wants_part
from radoboost.studio.security import Guard, LoginTokens
from radoboost.studio.workspace import LEDGER, MODEL, RELEASE, SCHEMA, TABLE, UNREADABLE, Folder

WAYS = (holder_routes.WAY, officer_routes.WAY, learner_routes.WAY)
_ROUTERS = (holder_routes.router, officer_routes.router, learner_routes.router)
_STATIC = {
    "style.css": ("radoboost.report", "templates/style.css", "text/css"),
    "htmx.min.js": ("radoboost.studio", "static/htmx.min.js", "text/javascript"),
    "icon.svg": ("radoboost.studio", "static/icon.svg", "image/svg+xml"),
}
_TITLES = {TABLE: "Tables", RELEASE: "Releases", MODEL: "Models", SCHEMA: "Schemas", LEDGER: "Ledgers"}
_TITLES[UNREADABLE] = "Files that cannot be read"
_OPENED_BY: dict[str, Callable[[Studio, Path], str]] = {  # the first page about a file, by its kind
    TABLE: holder_routes.open_table,
    RELEASE: officer_routes.open_release,
    MODEL: lambda studio, place: f"/learner/{learner_routes.open_files(studio, (place,))[0]}",
}
router = APIRouter()


def create_studio(folder: Path, port: int, chosen: Path | None = None) -> FastAPI:
    """The studio of a folder, for a server that listens at 127.0.0.1:port; `chosen` is a file to begin with."""
    studio = Studio(Folder(folder), LoginTokens(port), chosen)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=_studio_lifespan)
    app.state.studio = studio
    app.add_middleware(Guard, door=studio.door, failed=_studio_failure_page)
    app.add_exception_handler(RadoError, _say_studio_error)
    app.add_exception_handler(HTTPException, _say_studio_status)
    app.add_exception_handler(422, _say_studio_status)
    for each in (router, *_ROUTERS):
        app.include_router(each)
    return app


@asynccontextmanager
async def _studio_lifespan(app: FastAPI) -> AsyncIterator[None]:
    """When the server ends, jobs are cancelled and waited for."""
    try:
        yield
    finally:
        app.state.studio.at_end()
        await run_in_threadpool(app.state.studio.jobs.close)


@router.get("/")
def front(request: Request, studio: Here) -> Response:
    """Three doors, the files that are there, and what is running; what the command named opens at first."""
    found, chosen = studio.folder.files(), None
    if studio.chosen is not None and studio.chosen.is_file():
        chosen = studio.folder.found(studio.chosen)
        if chosen.kind in _OPENED_BY and not studio.opened:
            studio.opened = True  # also where that fails: the next look at this page shows it
            return redirect_to(request, _OPENED_BY[chosen.kind](studio, studio.chosen))
    return render_studio_page(request, "front.html", ways=WAYS, files=found, chosen=chosen, titles=_TITLES)


@router.get("/favicon.ico")
def favicon() -> Response:
    """The icon, for browsers that ask for it before they know its place."""
    return static("icon.svg")


@router.get("/static/{name}")
def static(name: str) -> Response:
    if name not in _STATIC:
        raise HTTPException(404)
    package, path, kind = _STATIC[name]
    return Response(files(package).joinpath(path).read_bytes(), media_type=kind)


@router.get("/jobs/{number}")
def job_page(request: Request, studio: Here, number: str) -> HTMLResponse:
    return render_studio_page(request, "job.html", job=_studio_job(studio, number))


@router.get("/jobs/{number}/progress")
def job_progress(request: Request, studio: Here, number: str) -> HTMLResponse:
    """How far a job is: a part of a page, asked for each second; when it has ended, the page is loaded again."""
    job = _studio_job(studio, number)
    response = render_studio_page(request, "progress.html", job=job)
    if job.is_over:
        response.headers["hx-refresh"] = "true"
    return response


@router.post("/jobs/{number}/cancel")
def cancel(request: Request, studio: Here, number: str) -> Response:
    job = _studio_job(studio, number)
    job.cancel()
    job.wait(1.0)
    return redirect_to(request, job.address)


@router.post("/elsewhere")
def other_browser(request: Request, studio: Here) -> HTMLResponse:
    """An address that lets one more browser in, once."""
    return render_studio_page(request, "elsewhere.html", address=studio.door.new_address())


@router.get("/quit")
def ask_to_quit(request: Request) -> HTMLResponse:
    return render_studio_page(request, "quit.html")


@router.post("/quit")
def quit_studio(request: Request, studio: Here, form: Sent) -> HTMLResponse:
    if form.text("sure", "") != "yes":
        raise ArgumentError("the studio ends once you confirm it; use the button on the page")
    response = render_studio_page(request, "ended.html")
    studio.quitting = True
    return response


def _studio_job(studio: Studio, number: str) -> Job:
    job = studio.jobs.get(number)
    if job is None:
        raise HTTPException(404)
    return job


async def _say_studio_error(request: Request, error: Exception) -> Response:
    line = " ".join(str(error).split())
    return await run_in_threadpool(render_studio_page, request, "error.html", 400, title="That did not work", line=line)


async def _say_studio_status(request: Request, error: Any) -> Response:
    status = getattr(error, "status_code", 400)
    line = {404: "there is no such page", 405: "this page is read, or sent, in another way"}.get(
        status, "this request cannot be answered"
    )
    return await run_in_threadpool(render_studio_page, request, "error.html", status, title="Not here", line=line)


def _studio_failure_page(scope: Scope, number: str) -> Response:
    """A page about a failure that nobody foresaw; its traceback is on stderr."""
    line = f"something went wrong (failure {number}); the terminal of rado studio says more"
    try:
        request = Request({**scope, "state": {}})
        return HTMLResponse(
            studio_templates().get_template("error.html").render(
                studio=scope["app"].state.studio, csrf="", path="", wants_part=wants_part(request),
                title="Something went wrong", line=line,
            ),
            500,
        )  # fmt: skip
    except Exception:
        return PlainTextResponse(f"{line}\n", 500)


# ---- The studio's server: at 127.0.0.1 alone, patient with people and impatient with slow clients.


class Server(serving.Server):
    """A server that also ends when the studio's Quit button was confirmed."""

    async def on_tick(self, counter: int) -> bool:
        app: Any = self.config.app
        return await super().on_tick(counter) or app.state.studio.quitting


def listen_on_loopback(port: int) -> serving.Listener:
    """A socket at 127.0.0.1, which no other machine reaches; port 0 is one that is free."""
    return serving.listening_socket("127.0.0.1", port)


def studio_server(app: FastAPI) -> Server:
    """The server, not yet running: `run(sockets=[listening(port)])` runs it until it is stopped."""
    return Server(app, lifespan="on")
