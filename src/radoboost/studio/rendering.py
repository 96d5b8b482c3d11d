"""How pages are made: from templates, with what every page has."""

import functools
import secrets
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from radoboost.errors import ArgumentError
from radoboost.report.html import html_templates as findings_templates
from radoboost.studio.jobs import Jobs
from radoboost.studio.security import Form, LoginTokens, Session
from radoboost.studio.workspace import MOST_LISTED, Folder, WorkspaceFile, file_size_text

if TYPE_CHECKING:
    import jinja2


# ---- What people are at: objects of the ways, each under a random id, which is all that an address says.

T = TypeVar("T")
_MOST = 100  # the one that was not used for longest is forgotten first


class Sessions:
    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._lock = threading.Lock()

    def add(self, thing: Any) -> str:
        """Keep an object, and give its id."""
        number = secrets.token_hex(16)
        with self._lock:
            self._objects[number] = thing
            while len(self._objects) > _MOST:
                del self._objects[next(iter(self._objects))]
        return number

    def all(self) -> list[Any]:
        """All objects, the one that was used last behind the others."""
        with self._lock:
            return list(self._objects.values())

    def get(self, number: str, kind: type[T]) -> T:
        """The object of an id, which must be of a class."""
        with self._lock:
            thing = self._objects.pop(number, None)
            if thing is not None:
                self._objects[number] = thing  # the last one used is the last one forgotten
        if not isinstance(thing, kind):
            raise ArgumentError("the studio has forgotten this page, or never had it; begin at its front page")
        return thing


@dataclass
class Studio:
    """What all pages share: the folder, the jobs, who may come in, and what people are at.

    `opened` says that the file which the command named was shown. `at_end` is called when the server ends.
    `before_counts` has, for each table of which exact counts were shown, what was decided about its columns by then.
    """

    folder: Folder
    door: LoginTokens
    chosen: Path | None = None
    jobs: Jobs = field(default_factory=Jobs)
    sessions: Sessions = field(default_factory=Sessions)
    quitting: bool = False
    opened: bool = False
    at_end: Callable[[], None] = lambda: None
    before_counts: dict[Path, Mapping[str, Any]] = field(default_factory=dict)

    def show_counts(self, table: Path, entries: Mapping[str, Any]) -> None:
        """Remember what was decided about a table when its exact counts were first shown."""
        self.before_counts.setdefault(table.resolve(), entries)


def studio_of(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


def form_of(request: Request) -> Form:
    """The form that was sent; the guard has read and checked it."""
    form: Form = request.state.form
    return form


Here = Annotated[Studio, Depends(studio_of)]
Sent = Annotated[Form, Depends(form_of)]


def render_studio_page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page, or a part of one, from a template. Every template has `studio`, `session` and `wants_part`."""
    session: Session = request.state.session
    more = {"studio": studio_of(request), "session": session, "csrf": session.form_token, "path": request.url.path}
    text = studio_templates().get_template(template).render(**more, wants_part=wants_part(request), **values)
    return HTMLResponse(text.encode(), status)


def wants_part(request: Request) -> bool:
    return "hx-request" in request.headers


def redirect_to(request: Request, address: str) -> Response:
    if wants_part(request):
        return Response(status_code=204, headers={"hx-redirect": address})
    return RedirectResponse(address, 303)


@functools.cache
def studio_templates() -> "jinja2.Environment":
    """The templates of the studio and of findings, which escape whatever is put into them."""
    import jinja2

    findings = findings_templates()
    environment = findings.overlay(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("radoboost.studio"), jinja2.PackageLoader("radoboost.report")])
    )
    environment.globals = {**findings.globals, "most_listed": MOST_LISTED}
    environment.filters = {**findings.filters, "size": file_size_text, "files_of": _workspace_files_of_kind}
    return environment


def _workspace_files_of_kind(files: list[WorkspaceFile], kind: str) -> list[WorkspaceFile]:
    return [found for found in files if found.kind == kind]


# ---- What the ways of holder, officer and learner have in common: a door on the front page, and files to begin with.


@dataclass(frozen=True)
class Role:
    """A way through the studio: its address is /NAME, and a form with `file`, sent there, begins it.

    `verbs` has the kinds of files that it begins with, and what the button of such a file says.
    """

    name: str
    door: str
    about: str
    verbs: Mapping[str, str]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.verbs)


# ---- The command that does the same as a step on a page, for a shell.


def shell_command(*words: object) -> str:
    r"""A command of rado as one line for a shell.

    A file's name that begins with a dash is given as a path, and control characters as bash writes them.
    """
    return " ".join(_quote_for_shell(word) for word in ("rado", *words))


def piped_shell_command(lines: Sequence[str], *words: object) -> str:
    """A command of rado that reads lines from standard input."""
    return f"printf '%s\\n' {' '.join(_quote_for_shell(line) for line in lines)} | {shell_command(*words)}"


def _quote_for_shell(word: object) -> str:
    text = str(word)
    if isinstance(word, PurePath) and text.startswith("-"):
        text = f"./{text}"
    if text.isprintable():
        return shlex.quote(text)
    letters = (_escape_for_shell(letter) for letter in text)
    return f"$'{''.join(letters)}'"


def _escape_for_shell(letter: str) -> str:
    if letter in "'\\":
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    if letter == "\n":
        return r"\n"
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
