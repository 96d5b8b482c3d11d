"""The studio's guard: whoever is not let in, and whatever does not come from its own pages, is refused in one line."""

import http.client
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from radoboost import serving
from radoboost.errors import ArgumentError
from radoboost.studio import app, security
from radoboost.studio.security import HEADERS, LoginTokens
from radoboost.studio.workspace import MOST_LISTED, Folder
from studio_pages import FORM, Client, running

MARKUP = "<img src=x onerror=alert(1)>&\"'{{7*7}}.csv"


def listing(folder):
    return sorted((str(path.relative_to(folder)), path.lstat().st_size) for path in folder.rglob("*"))


@pytest.fixture(autouse=True)
def repeatable_system_randomness():
    """Tokens of one studio must differ from test to test: they come from the operating system after all."""


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder with a secret beside the studio's own."""
    root = tmp_path_factory.mktemp("machine")
    (root / "secret.csv").write_text("age,ill\n70,yes\n")
    folder = root / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "patients.csv").write_text("age,ill\n70,yes\n50,no\n")
    (folder / "below" / "more.csv").write_text("age,ill\n70,yes\n")
    (folder / MARKUP).write_text("age,ill\n70,yes\n")
    (folder / "con\x1btrol\n.csv").write_text("age,ill\n70,yes\n")
    (folder / os.fsdecode(b"latin-\xe9.csv")).write_text("age,ill\n70,yes\n")
    (folder / "link.csv").symlink_to(root / "secret.csv")
    (folder / "inner.csv").symlink_to(folder / "patients.csv")
    (folder / "away").symlink_to(root)
    os.mkfifo(folder / "pipe.csv")
    return folder


@pytest.fixture(scope="module")
def studio(outside):
    with running(outside) as client:
        yield client.enter()


@pytest.fixture(autouse=True)
def nothing_written_and_no_traceback(outside, capfd):
    before = listing(outside)
    yield
    assert listing(outside) == before
    assert "Traceback" not in capfd.readouterr().err


def refused(answer, *statuses):
    """It is refused in one line of plain text, with the headers of every answer, and without a traceback."""
    status, headers, text = answer
    assert status in statuses, (status, text)
    assert text.count("\n") == 1 and "Traceback" not in text and headers["Content-Type"].startswith("text/plain")
    for name, value in HEADERS.items():
        assert headers.get_all(name) == [value]


# ---- who is let in


def test_every_answer_has_the_headers(studio):
    for path in ("/", "/static/style.css", "/static/htmx.min.js", "/nowhere", "/quit"):
        _, headers, _ = studio.get(path)
        for name, value in HEADERS.items():
            assert headers.get_all(name) == [value], (path, name)
        assert "server" not in headers
    csp = HEADERS["content-security-policy"]
    assert csp.startswith("default-src 'none'") and "unsafe" not in csp and "http" not in csp


def test_pages_have_no_inline_script_or_style_and_no_other_address(studio):
    for path in ("/", "/holder", "/officer", "/learner", "/quit", "/nowhere"):
        text = studio.get(path)[2]
        assert "<style" not in text and " style=" not in text and " onclick=" not in text
        assert text.count("<script") <= 1 and '<script src="/static/htmx.min.js" defer></script>' in text
        assert "http://" not in text and "https://" not in text


def test_a_token_lets_one_browser_in_once(studio):
    path = studio.new_path()
    status, headers, text = studio.get(path, Cookie=None)
    assert (status, headers["Location"], text) == (303, "/", "")
    assert headers["Referrer-Policy"] == "no-referrer"
    cookie, _, rest = headers["Set-Cookie"].partition("; ")
    assert sorted(rest.lower().split("; ")) == ["httponly", "path=/", "samesite=strict"]
    assert cookie.split("=")[1] not in path
    assert studio.get("/", Cookie=cookie)[0] == 200
    refused(studio.get(path, Cookie=None), 403)
    assert studio.get(path, Cookie=cookie)[0] == 303  # whoever is in already just goes on
    assert "Set-Cookie" not in studio.get(path, Cookie=cookie)[1]


@pytest.mark.parametrize("query", ["", "?", "?token=", "?token=x", "?token=%00%ff", "?other=1", "?token=x&token=y"])
def test_no_other_token_lets_in(studio, query):
    refused(studio.get(f"/enter{query}", Cookie=None), 403)


def test_a_look_at_the_address_does_not_use_it_up(studio):
    """A HEAD request, a form, a browser that fetches ahead, or a picture of another site."""
    path = studio.new_path()
    refused(studio.send("POST", path, b"", {"Cookie": None, "Origin": f"http://{studio.host}"}), 405)
    assert studio.send("HEAD", path, headers={"Cookie": None})[0] == 405
    refused(studio.get(path, **{"Cookie": None, "Sec-Purpose": "prefetch;prerender"}), 503)
    refused(studio.get(path, **{"Cookie": None, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}), 403)
    assert studio.get(path, Cookie=None)[0] == 303


def test_the_address_may_be_a_link_elsewhere(studio):
    """A redirect would be one of the page with the link, and have no cookie; so the studio's own page goes on."""
    far = {"Cookie": None, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    status, headers, text = studio.get(studio.new_path(), **far)
    assert (status, text, headers["Refresh"]) == (200, "", "0; url=/")
    assert headers["Referrer-Policy"] == "no-referrer" and "Set-Cookie" in headers


@pytest.mark.parametrize("path", ["/", "/static/style.css", "/quit", "/nowhere", "/jobs/x/progress"])
def test_without_the_cookie_there_is_nothing(studio, path):
    for cookie in (None, "rado_studio_1=x", "{name}=x", "{name}=", "{name}=\x7f\xe9;;=", "a" * 5000):
        refused(studio.get(path, Cookie=cookie and cookie.replace("{name}", studio.studio.door.cookie)), 403)


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]:{port}", "evil.example:{port}",
             "127.0.0.1:{port}.evil.example", "127.0.0.1:{port}/", "user@127.0.0.1:{port}", "127.0.0.1:{port}, evil"],
)  # fmt: skip
def test_another_host_is_refused(studio, host):
    host = host and host.replace("{port}", str(studio.port))
    status = studio.get("/", Host=host)[0]
    assert status == (400 if host is None else 403)  # HTTP/1.1 cannot be without


def test_two_hosts_are_refused(studio):
    text = f"GET / HTTP/1.1\r\nHost: {studio.host}\r\nHost: evil.example\r\nCookie: {studio.cookie}\r\n\r\n"
    assert raw(studio, text.encode()).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://{host}", "http://localhost:{port}", "http://{host}.x"]
)
def test_another_origin_is_refused(studio, origin):
    origin = origin.replace("{host}", studio.host).replace("{port}", str(studio.port))
    for answer in (studio.get("/", Origin=origin), studio.post("/elsewhere", headers={"Origin": origin})):
        refused(answer, 403)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_requests_of_other_sites_are_refused(studio, site):
    """Another port of this machine is the same site, and not the same origin."""
    refused(studio.get("/", **{"Sec-Fetch-Site": site}), 403)
    refused(studio.post("/elsewhere", headers={"Sec-Fetch-Site": site, "Origin": None}), 403)
    refused(studio.post("/elsewhere", headers={"Sec-Fetch-Site": site}), 403)


def test_forms_say_where_they_come_from_and_hold_their_token(studio):
    assert studio.post("/elsewhere")[0] == 200
    assert studio.post("/elsewhere", headers={"Origin": None, "Sec-Fetch-Site": "same-origin"})[0] == 200
    refused(studio.post("/elsewhere", headers={"Origin": None}), 403)
    refused(studio.post("/elsewhere", {"csrf": "x"}), 403)
    refused(studio.post("/elsewhere", {"csrf": ""}), 403)
    other = type(studio)(studio.port, studio.studio).enter()
    refused(studio.post("/elsewhere", {"csrf": other.csrf}), 403)  # the token of another session
    refused(studio.send("POST", "/elsewhere", b"", {"Origin": f"http://{studio.host}", "Content-Type": FORM}), 403)


def test_a_new_address_on_the_page_lets_another_browser_in(studio):
    text = studio.post("/elsewhere")[2]
    path = text.partition(f"http://127.0.0.1:{studio.port}")[2].partition("<")[0]
    assert studio.get(path, Cookie=None)[0] == 303
    refused(studio.get(path, Cookie=None), 403)


def test_addresses_have_no_options(studio):
    for path in ("/?file=patients.csv", "/holder?x=1", "/static/style.css?v=1"):
        refused(studio.get(path), 400)


def test_old_tokens_end():
    door = LoginTokens(1)
    tokens = [door.new_address().partition("=")[2] for _ in range(security._MOST_TOKENS + 1)]
    assert len(set(tokens)) == len(tokens) and all(len(token) == 43 for token in tokens)
    assert door.enter(tokens[0]) is None and door.enter(tokens[1]) is not None


# ---- paths


@pytest.mark.parametrize(
    "path", ["../secret.csv", "{root}/secret.csv", "/etc/passwd", "link.csv", "away/secret.csv", "..", "below/../..",
             "below/../../secret.csv", "%2e%2e/secret.csv", "..%2fsecret.csv", "patients.csv\0", "\0", "", " ", ".",
             "below", "pipe.csv", "nothing.csv", "patients.csv/x", "x" * 5000, "~/secret.csv", "file:///etc/passwd",
             "\\\\host\\share", "con\x1btrol", "\u202egnp.csv", "a/" * 2000 + "b"],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(studio, outside, path):
    path = path.replace("{root}", str(outside.parent))
    for way in ("holder", "officer", "learner"):
        status, headers, text = studio.post(f"/{way}", {"file": path})
        assert status == 400 and headers["Content-Type"].startswith("text/html"), text
        assert 'role="alert"' in text and "70,yes" not in text and "root:" not in text
    with pytest.raises(ArgumentError) as said:
        Folder(outside).file(path)
    assert "\n" not in str(said.value) and len(str(said.value)) < 200
    try:
        place = Folder(outside).place(path)
    except ArgumentError:
        return
    assert place.is_relative_to(outside) and place != outside


def test_files_of_the_folder_are_found_and_links_out_of_it_are_not(outside):
    folder = Folder(outside)
    names = {found.name for found in folder.files()}
    assert {"patients.csv", "below/more.csv", MARKUP} <= names
    assert not {name for name in names if "secret" in name or "link" in name or "pipe" in name}
    for found in folder.files():
        assert folder.file(found.id) == (outside / found.name).resolve()
    assert folder.file("inner.csv") == (outside / "patients.csv").resolve()
    assert folder.place("below/new.csv") == outside / "below" / "new.csv"


def test_a_link_that_is_turned_later_is_refused(outside, tmp_path):
    folder = Folder(tmp_path)
    (tmp_path / "a.csv").write_text("age,ill\n70,yes\n")
    (found,) = folder.files()
    (tmp_path / "a.csv").unlink()
    (tmp_path / "a.csv").symlink_to(outside.parent / "secret.csv")
    with pytest.raises(ArgumentError, match="not in the folder"):
        folder.file(found.id)
    assert folder.files() == []


def test_a_list_of_very_many_files_is_cut_and_says_so(outside, tmp_path):
    for k in range(MOST_LISTED + 5):
        (tmp_path / f"{k}.csv").write_text("age,ill\n70,yes\n")
    with running(tmp_path) as client:
        text = client.enter().get("/holder")[2]
    assert text.count(">Decide about it<") == MOST_LISTED and f"more files than the {MOST_LISTED}" in text


def test_names_full_of_markup_are_shown_escaped(studio):
    text = studio.get("/")[2]
    assert "<img src=x" not in text and "&lt;img src=x onerror=alert(1)&gt;&amp;&#34;&#39;{{7*7}}.csv" in text
    assert "\x1b" not in text and "con\ufffdtrol\n.csv" in text and "latin-\ufffd.csv" in text
    for part in ("onerror", "con", "latin"):
        status, headers, _ = studio.post("/holder", {"file": studio.file_id(part)})
        assert status == 303
        status, _, text = studio.get(headers["Location"])
        assert status == 200 and "<img src=x" not in text and "\x1b" not in text
    status, _, text = studio.post("/officer", {"file": "<script>alert(1)</script>"})
    assert status == 400 and "<script>alert" not in text and "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/htmx.LICENSE",
             "//evil.example/", "/holder/%00", "/holder/../../etc/passwd", "/holder/" + "x" * 3000],
)  # fmt: skip
def test_no_address_leads_out_of_the_package(studio, path):
    status, _, text = studio.get(path)
    assert status in (400, 404) and "import" not in text and "Traceback" not in text


# ---- what is sent


def pieces(total, size=1 << 16):
    """A body in chunks, which begins as a form does; says how much was taken."""
    for _ in range(0, total, size):
        yield b"file=" + b"x" * (size - 5)


@pytest.mark.parametrize(("kind", "declared"), [(FORM, False), ("multipart/form-data; boundary=x", True)])
def test_an_upload_of_2_gib_is_refused_early(studio, kind, declared):
    total, sent = 2 << 30, 0
    connection = socket.create_connection(("127.0.0.1", studio.port), timeout=20)
    length = f"Content-Length: {total}" if declared else "Transfer-Encoding: chunked"
    who = f"Host: {studio.host}\r\nOrigin: http://{studio.host}\r\nCookie: {studio.cookie}"
    head = f"POST /holder HTTP/1.1\r\n{who}\r\nContent-Type: {kind}\r\n{length}\r\n\r\n"
    with connection:
        connection.sendall(head.encode())
        try:
            for piece in pieces(total):
                connection.sendall(piece if declared else b"%x\r\n%b\r\n" % (len(piece), piece))
                sent += len(piece)
        except OSError:
            pass  # it hung up
        else:
            pytest.fail("it took everything")
    assert sent < 16 << 20  # what buffers of the system hold, and little more
    assert studio.get("/")[0] == 200


@pytest.mark.parametrize("length", [str(security.MOST_BYTES + 1), "9" * 19])
def test_a_form_that_says_it_is_large_is_refused_unread(studio, length):
    headers = {"Origin": f"http://{studio.host}", "Content-Type": FORM, "Content-Length": length}
    refused(studio.send("POST", "/holder", headers=headers), 413)


def test_only_forms_are_taken(studio):
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        refused(studio.post("/holder", headers={"Content-Type": kind}), 415)
    own = {"Origin": f"http://{studio.host}", "Content-Type": FORM}
    refused(studio.send("POST", "/holder", b"csrf=\xff&%ff%fe=%ff", own), 400)
    many = b"a=1&" * (security._MOST_FIELDS + 1)
    refused(studio.send("POST", "/holder", many, own), 400)


def test_a_field_that_is_missing_is_said(studio):
    status, _, text = studio.post("/holder")
    assert status == 400 and "the form has no field &#39;file&#39;" in text


def test_other_methods_are_refused(studio):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO"):
        assert studio.send(method, "/")[0] in (400, 405), method


def test_head_is_a_page_without_its_body(studio):
    status, headers, text = studio.send("HEAD", "/")
    assert (status, text) == (200, "") and int(headers["Content-Length"]) > 1000
    assert studio.send("HEAD", "/nowhere")[0] == 404


def test_a_page_that_is_not_there_says_so(studio):
    status, _, text = studio.get("/nowhere")
    assert status == 404 and "there is no such page" in text
    assert studio.send("GET", "/quit")[0] == 200 and studio.post("/", {})[0] == 405
    assert "has forgotten this page" in studio.get(f"/holder/{'0' * 32}")[2]
    assert studio.get("/jobs/none")[0] == studio.post("/jobs/none/cancel")[0] == 404


def raw(studio, content):
    """What comes back to bytes as they are, up to where the server hangs up, be it before it has read all of them."""
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", studio.port), timeout=120) as connection,
        suppress(ConnectionResetError, BrokenPipeError),
    ):
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            answer += piece
    return answer


@pytest.mark.parametrize(
    "path", [b"/\r\nSet-Cookie: a=b", b"/%0d%0aSet-Cookie:%20a=b", b"/holder/%0d%0aX-A:%20b", b"/\x00", b"*", b"/%",
             b"http://evil.example/"],
)  # fmt: skip
def test_headers_cannot_be_injected(studio, path):
    head = b"GET %b HTTP/1.1\r\nHost: %b\r\nCookie: %b\r\nConnection: close\r\n\r\n"
    answer = raw(studio, head % (path, studio.host.encode(), studio.cookie.encode()))
    headers = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"set-cookie" not in headers and b"x-a" not in headers and b"traceback" not in answer.lower()
    assert studio.get("/")[0] == 200


@pytest.mark.parametrize(
    "content", [b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"nonsense\r\n\r\n", b"GET /" + b"a" * 100_000,
                b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_request_ends_the_connection(studio, content):
    assert raw(studio, content).split()[1:2] in ([], [b"400"], [b"403"])
    assert studio.get("/")[0] == 200


# ---- many, and slow


def test_100_requests_at_once_are_answered(studio):
    answers, start = [], threading.Barrier(100)

    def ask():
        start.wait()
        try:
            answers.append(studio.send("GET", "/")[0])
        except (OSError, http.client.HTTPException) as error:
            answers.append(error)

    threads = [threading.Thread(target=ask) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 100 and set(answers) <= {200, 503} and 200 in answers, answers
    assert studio.get("/")[0] == 200


def test_more_than_are_handled_at_once_are_told_to_come_again(studio, monkeypatch):
    monkeypatch.setattr(security, "MOST_AT_ONCE", 0)
    refused(studio.get("/"), 503)


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_does_not_arrive_ends_the_connection(studio, monkeypatch, head):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", studio.port), timeout=120) as connection:
        connection.sendall(head)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_a_form_that_does_not_arrive_is_not_waited_for(studio, monkeypatch):
    monkeypatch.setattr(security, "PATIENCE", 0.2)
    headers = {"Origin": f"http://{studio.host}", "Content-Type": FORM, "Content-Length": "100"}
    refused(studio.send("POST", "/holder", headers=headers), 408)


def test_an_answer_that_nobody_takes_is_not_kept(studio, monkeypatch):
    """Otherwise whoever asks and never listens would fill memory; after its time is up, the rest does not come."""
    monkeypatch.setattr(serving, "TAKING_SECONDS", 0.2)
    times, got, gone, lost = 600, 0, [], serving.Connection.connection_lost

    def noted(self, error):
        gone.append(self.client)
        lost(self, error)

    monkeypatch.setattr(serving.Connection, "connection_lost", noted)
    head = f"GET /static/htmx.min.js HTTP/1.1\r\nHost: {studio.host}\r\nCookie: {studio.cookie}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", studio.port), timeout=120) as connection:
        connection.sendall(head.encode() * times)
        assert until(lambda: connection.getsockname() in gone)
        with suppress(ConnectionResetError):
            while piece := connection.recv(1 << 20):
                got += len(piece)
    assert got < times * 50_000
    assert studio.get("/")[0] == 200


# ---- failures


def test_a_failure_that_nobody_foresaw_is_a_number_on_the_page(studio, monkeypatch, capfd):
    monkeypatch.setattr(Folder, "files", lambda *_: 1 / 0)
    status, headers, text = studio.get("/")
    assert status == 500 and "something went wrong (failure " in text and "ZeroDivision" not in text
    assert headers.get_all("content-security-policy") == [HEADERS["content-security-policy"]]
    said = capfd.readouterr().err
    number = text.partition("(failure ")[2][:8]
    assert f"failure {number}" in said and "ZeroDivisionError" in said
    part = studio.get("/", **{"HX-Request": "true"})
    assert part[0] == 500 and "<html" not in part[2] and "something went wrong" in part[2]
    capfd.readouterr()


# ---- the command


def start(folder, *words, browser="--no-browser", **more):
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "radoboost", "studio", browser, *words], cwd=folder, **pipes, **more)


@pytest.mark.parametrize("used", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_browser_is_opened_without_the_token_among_its_words(tmp_path, used):
    """By a file that nobody else can read; it is gone once the address was used, or the studio was ended."""
    (tmp_path / "folder").mkdir()
    script, seen, temporary = tmp_path / "browser", tmp_path / "seen", tmp_path / "temporary"
    temporary.mkdir()
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{seen}.part"\nmv "{seen}.part" "{seen}"\n')
    script.chmod(0o700)
    more = {"BROWSER": f"{script} %s", "TMPDIR": str(temporary)}
    process = start(tmp_path / "folder", browser="--browser", env={**os.environ, **more})
    try:
        address = process.stdout.readline().strip()
        assert until(seen.exists)
        (given,) = seen.read_text().splitlines()
        token = address.partition("=")[2]
        assert token and token not in given and given.startswith("file://")
        place = Path(given.removeprefix("file://"))
        assert f'content="0; url={address}"' in place.read_text()
        assert [oct(path.stat().st_mode & 0o777) for path in (place, place.parent)] == ["0o600", "0o700"]
        port = int(address.split(":")[2].partition("/")[0])
        wait_for(port)
        if used:
            path = address.partition(str(port))[2]
            assert Client(port, None).get(path)[0] == 303
            assert until(lambda: not any(temporary.iterdir()))
            refused(Client(port, None).get(path), 403)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
    assert not any(temporary.iterdir()) and token not in said
    assert ("warning: an address that had let a browser in was opened by another one" in said) == used


def until(seen):
    """Whether something comes about within minutes."""
    end = time.monotonic() + 300
    while time.monotonic() < end and not seen():
        time.sleep(0.05)
    return seen()


@pytest.mark.parametrize(("end", "code"), [
    ("quit", 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
    pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.slow),
])  # fmt: skip
def test_the_command_ends_by_its_button_and_by_signals(tmp_path, end, code):
    (tmp_path / "a.csv").write_text("age,ill\n70,yes\n")
    process = start(tmp_path, "a.csv")
    try:
        address = process.stdout.readline().strip()
        port = int(address.split(":")[2].partition("/")[0])
        client = Client(port, None)
        client.new_path = lambda: address.partition(str(port))[2]
        wait_for(port)
        client.enter()
        assert "You named this file" in client.get("/")[2]
        if end == "quit":
            assert client.post("/quit")[0] == 400  # not confirmed
            assert "has ended" in client.post("/quit", {"sure": "yes"})[2]
        else:
            process.send_signal(end)
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == code
    assert "Traceback" not in said and address not in said
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.slow
def test_enter_in_the_terminal_gives_another_address(tmp_path):
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "radoboost", "studio", "--no-browser"]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        first = process.stdout.readline()
        os.write(ours, b"\n")
        second = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
        os.close(ours)
        os.close(theirs)
    assert process.returncode == 130 and "press Enter for a new address" in said and "Traceback" not in said
    assert first.split("=")[0] == second.split("=")[0] and first != second


def test_the_command_names_its_extra(rado, monkeypatch):
    monkeypatch.setitem(sys.modules, "radoboost.studio.app", None)
    code, out, err = rado("studio")
    assert (code, out) == (1, "") and "pip install '.[studio]'" in err


def wait_for(port):
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)


def test_the_command_refuses_what_it_cannot_begin_with(rado, tmp_path):
    (tmp_path / "outside.csv").write_text("age\n1\n")
    for words, said in {
        ("../outside.csv",): "folder",
        ("nothing.csv",): "nothing.csv",
        ("--port", "70000"): "port",
    }.items():
        code, out, err = rado("studio", "--no-browser", *words)
        assert (code, out) == (1, "") and said in err and err.count("\n") == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = rado("studio", "--no-browser", "--port", taken.getsockname()[1])
        assert code == 1 and "Address already in use" in err


def test_it_listens_at_this_machine_alone(studio):
    with app.listen_on_loopback(0) as door:
        assert door.getsockname()[0] == "127.0.0.1"
    assert Path(security.__file__).parent.joinpath("static", "htmx.min.js").read_bytes().startswith(b"var htmx=")
