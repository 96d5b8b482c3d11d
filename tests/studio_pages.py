"""A studio over a folder, run by a real server in a thread, and a client that can say anything to it."""

import http.client
import re
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlencode

from radoboost.studio.app import create_studio, listen_on_loopback, studio_server
from radoboost.studio.holder_routes import HolderSession

FORM = "application/x-www-form-urlencoded"


class Client:
    """Requests to a studio; `enter` lets it in. Every request is a connection of its own."""

    def __init__(self, port, studio):
        self.port, self.studio = port, studio
        self.host = f"127.0.0.1:{port}"
        self.cookie = self.csrf = ""

    def send(self, method, path, body=None, headers=None, timeout=120.0):
        """The status, the headers and the text of an answer; headers that are None are left out."""
        own = {"Host": self.host, "Cookie": self.cookie or None, **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if isinstance(body, bytes):
                own = {"Content-Length": str(len(body)), **own}
            for name, value in own.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.send("GET", path, headers=headers)

    def post(self, path, fields=None, headers=None):
        """A form as the studio's own pages send it; one about columns is of a page that was loaded just now."""
        body = urlencode({"csrf": self.csrf, **self._epoch(path), **(fields or {})}).encode()
        own = {"Origin": f"http://{self.host}", "Content-Type": FORM}
        return self.send("POST", path, body, {**own, **(headers or {})})

    def _epoch(self, path):
        way = re.fullmatch(r"/holder/(\w+)(/write|/anew)?", path)
        return {} if way is None else {"epoch": self.studio.sessions.get(way[1], HolderSession).draft.epoch}

    def new_path(self):
        """The path of a new address with a token."""
        return self.studio.door.new_address().removeprefix(f"http://127.0.0.1:{self.port}")

    def enter(self):
        status, headers, _ = self.get(self.new_path())
        assert (status, headers["Location"]) == (303, "/")
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        status, headers, text = self.get("/")
        if status == 303:  # to the page of the file that the command named
            text = self.get(headers["Location"])[2]
        self.csrf = re.search(r'name="csrf" value="([^"]+)"', text)[1]
        return self

    def file_id(self, text):
        """The id that the list on the front page gives to the file whose line contains a text."""
        return next(found.id for found in self.studio.folder.files() if text in found.name)


@contextmanager
def running(folder, chosen=None):
    """A client of a studio that runs over a folder, not yet let in."""
    with listen_on_loopback(0) as door:
        port = door.getsockname()[1]
        app = create_studio(folder, port, chosen)
        server = studio_server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
        thread.start()
        end = time.monotonic() + 120
        while not server.started and thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        try:
            yield Client(port, app.state.studio)
        finally:
            server.should_exit = True
            thread.join(120)
            assert not thread.is_alive(), "the server did not end"
