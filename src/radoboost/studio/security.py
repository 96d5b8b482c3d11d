"""Who may talk to the studio: a browser that a token let in, from the studio's own pages, in small requests.

Every request passes here before anything else sees it. What is refused is answered with one line, and nothing is
read or written for it.
"""

import asyncio
import hmac
import secrets
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radoboost.errors import ArgumentError

MOST_BYTES = 1 << 20  # of a form; tables are named, and never sent
MOST_AT_ONCE = 100  # requests; another one is told to come again
PATIENCE = 20.0  # seconds for a form to arrive
_MOST_FIELDS = 20_000
_MOST_TOKENS = 16  # that nobody has used yet
_MOST_USED = 256  # that are remembered
_FORM = "application/x-www-form-urlencoded"
_OWN = ("same-origin", "none")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "same-origin",  # with no-referrer, browsers would not say where a form comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_AGAIN = "press Enter in the terminal of rado studio for a new address"

_CAME_AGAIN = (
    "rado studio: warning: an address that had let a browser in was opened by another one, which was refused; if the "
    "first was not yours, somebody else is in: end the studio now with Ctrl-C"
)


class RequestRefused(Exception):
    """A request that is answered with a status and one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


@dataclass(frozen=True)
class Session:
    """A browser that was let in. Its forms carry `form_token`, which no other site can know."""

    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))


class Form:
    """The fields of a form, each with one value or several."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def text(self, name: str, default: str | None = None) -> str:
        """The last value of a field, which must be there if there is no default."""
        values = self.all(name)
        if not values and default is None:
            raise ArgumentError(f"the form has no field {name!r}; load the page again")
        return values[-1] if values else default or ""

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self.pairs)


class LoginTokens:
    """The tokens that let a browser in, each once, and the browsers that are in."""

    def __init__(self, port: int) -> None:
        self.port, self.cookie = port, f"rado_studio_{port}"  # cookies of one host are seen at all of its ports
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._tokens: list[str] = []
        self._used: list[str] = []
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def new_address(self) -> str:
        """An address that lets one browser in, once; of those that nobody used, the oldest ends."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens = [*self._tokens, token][-_MOST_TOKENS:]
        return f"http://{self.hosts[0]}/enter?token={token}"

    def enter(self, token: str) -> str | None:
        """The cookie of a new session, if the token is one that nobody has used."""
        with self._lock:
            matches = [known for known in self._tokens if _constant_time_equal(known, token)]
            if not matches:
                return None
            self._tokens.remove(matches[0])
            self._used = [*self._used, matches[0]][-_MOST_USED:]
            cookie = secrets.token_urlsafe(32)
            self._sessions[cookie] = Session()
        return cookie

    def is_open(self, address: str) -> bool:
        with self._lock:
            return any(_constant_time_equal(known, address.partition("=")[2]) for known in self._tokens)

    def came_again(self, token: str) -> bool:
        """Whether a token was used before; it is said of each once."""
        with self._lock:
            matches = [known for known in self._used if _constant_time_equal(known, token)]
            self._used = [known for known in self._used if known not in matches]
            return bool(matches)

    def session(self, cookie: str) -> Session | None:
        with self._lock:
            return next(
                (session for known, session in self._sessions.items() if _constant_time_equal(known, cookie)), None
            )


class Guard:
    """The middleware around the studio; `failed` makes the page for a failure that nobody foresaw, from its id."""

    def __init__(self, app: ASGIApp, door: LoginTokens, failed: Callable[[Scope, str], Response]) -> None:
        self.app, self.door, self.failed = app, door, failed
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send)
        self._busy += 1
        try:
            await self._answered(scope, receive, answer)
        finally:
            self._busy -= 1

    async def _answered(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        try:
            if self._busy > MOST_AT_ONCE:
                raise RequestRefused(503, "too many requests at once; try again in a moment")
            await self._pass_on(scope, receive, answer)
        except RequestRefused as refusal:
            response: Response = _plain_response(refusal.status, str(refusal))
        except TimeoutError:
            response = _plain_response(408, "this took too long; load the page again")
        except Exception:
            number = secrets.token_hex(4)
            print(f"rado studio: failure {number}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            response = self.failed(scope, number)
        else:
            return
        if not answer.started:
            await response(scope, receive, answer)

    async def _pass_on(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        headers = _headers_by_name(scope)
        self._check_host(headers)
        method: str = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            raise RequestRefused(405, f"there is no {method[:20]!r} here; pages are read and forms are sent")
        entering = scope["path"] == "/enter"
        self._check_origin(headers, method, entering)
        if entering:
            await self._enter(scope, headers)(scope, receive, answer)
            return
        if scope["query_string"]:
            raise RequestRefused(400, "addresses of the studio have no options; begin at its front page")
        session = self._session(headers)
        if session is None:
            raise RequestRefused(403, f"this browser was not let in; {_AGAIN}")
        state: dict[str, Any] = {**scope.get("state", {}), "session": session}
        body = b""
        if method == "POST":
            body = await _read_request_body(headers, receive)
            state["form"] = _checked_form(body, session)
        inner = {**scope, "state": state, "method": "GET" if method == "HEAD" else method}
        await self.app(inner, _replay_request_body(body, receive), answer)

    def _check_host(self, headers: Mapping[str, list[str]]) -> None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.door.hosts:
            raise RequestRefused(403, "the studio answers to its own address alone")

    def _check_origin(self, headers: Mapping[str, list[str]], method: str, entering: bool) -> None:
        """Only the studio's own pages, and what a person typed; the address with a token may be a link anywhere."""
        origins, sites = headers.get("origin", []), headers.get("sec-fetch-site", [])
        own = f"http://{headers['host'][0].lower()}"
        foreign = any(origin.lower() != own for origin in origins) or any(site not in _OWN for site in sites)
        linked = entering and method == "GET" and headers.get("sec-fetch-mode", ["navigate"]) == ["navigate"]
        if (foreign and not (linked and not origins)) or (method == "POST" and not origins and not sites):
            raise RequestRefused(403, "this request does not come from a page of the studio")

    def _session(self, headers: Mapping[str, list[str]]) -> Session | None:
        for line in headers.get("cookie", []):
            try:
                morsel = SimpleCookie(line).get(self.door.cookie)
            except CookieError:
                continue
            if morsel is not None and (session := self.door.session(morsel.value)) is not None:
                return session
        return None

    def _enter(self, scope: Scope, headers: Mapping[str, list[str]]) -> Response:
        """Let a browser in: its token becomes a cookie, and is never seen again."""
        if scope["method"] != "GET":
            raise RequestRefused(405, "the address with a token is there to be opened in a browser")
        if any("prefetch" in purpose for purpose in headers.get("sec-purpose", [])):
            raise RequestRefused(503, "a token is for a person who opens the address")
        pairs = parse_qsl(scope["query_string"].decode("latin-1"))
        token = pairs[0][1] if len(pairs) == 1 and pairs[0][0] == "token" else ""
        cookie = self.door.enter(token)
        if cookie is None and self._session(headers) is None:
            if self.door.came_again(token):
                print(_CAME_AGAIN, file=sys.stderr, flush=True)
            raise RequestRefused(403, f"this address was used already, or is not one of this studio; {_AGAIN}")
        if headers.get("sec-fetch-site", ["none"])[0] in _OWN:
            response: Response = RedirectResponse("/", 303)
        else:  # a redirect would go on as a request of the page with the link, without the cookie
            response = Response(status_code=200, headers={"refresh": "0; url=/"})
        response.headers["referrer-policy"] = "no-referrer"
        if cookie is not None:
            response.set_cookie(self.door.cookie, cookie, path="/", httponly=True, samesite="strict")
        return response


class _Answer:
    """What is sent, with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send, self.started = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            own = {name.decode("latin-1") for name, _ in message.get("headers", [])}
            added = [(name, text) for name, text in HEADERS.items() if name != "referrer-policy" or name not in own]
            kept = [pair for pair in message.get("headers", []) if pair[0].decode("latin-1") not in dict(added)]
            message = {**message, "headers": kept + [(name.encode(), text.encode()) for name, text in added]}
        await self._send(message)


def _constant_time_equal(known: str, given: str) -> bool:
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "replace"))


def _plain_response(status: int, line: str) -> Response:
    """One line of plain text; the connection ends with it, so that nothing more of a request is taken."""
    return PlainTextResponse(f"{line}\n", status, headers={"connection": "close"})


def _headers_by_name(scope: Scope) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


async def _read_request_body(headers: Mapping[str, list[str]], receive: Receive) -> bytes:
    """What is sent, as long as it is a form and not too much: a length that is declared is not believed."""
    if headers.get("content-type", [""])[0].partition(";")[0].strip().lower() != _FORM:
        raise RequestRefused(415, "the studio takes forms; tables are named by their paths, and never sent")
    declared = headers.get("content-length", ["0"])[0]
    body, large = bytearray(), f"a form has at most {MOST_BYTES:,} bytes; tables are named by their paths"
    if not declared.isdecimal() or int(declared[:20]) > MOST_BYTES:
        raise RequestRefused(413, large)
    async with asyncio.timeout(PATIENCE):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestRefused(400, "the form did not arrive")
            body += message.get("body", b"")
            if len(body) > MOST_BYTES:
                raise RequestRefused(413, large)
            if not message.get("more_body", False):
                return bytes(body)


def _checked_form(body: bytes, session: Session) -> Form:
    """The fields of a form that one of the studio's own pages made."""
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise RequestRefused(400, "this form cannot be read; load the page again") from None
    form = Form([(name, value) for name, value in pairs if name != "csrf"])
    if not _constant_time_equal(session.form_token, dict(pairs).get("csrf", "")):
        raise RequestRefused(403, "this form is not one of this session; load the page again")
    return form


def _replay_request_body(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, for whoever asks for it."""
    given = False

    async def read() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return read
