"""An object store on this machine: moto's S3 behind something that counts requests and can make them fail."""

import threading
from contextlib import contextmanager

KEY, SECRET = "AKIARADOBOOSTTESTS00", "kestrelOnTheRoof/of+the+barn/0123456789"


class Watched:
    """A WSGI application around another: what it was asked for, and which requests fail.

    `fault(number)` says what happens to request `number`, counted from 1: None, "error" (status 500) or "cut" (half of
    the answer, then the connection is closed).
    """

    def __init__(self, app):
        self._app, self._lock = app, threading.Lock()
        self.clear()

    def clear(self):
        self.seen, self.n_bytes, self.authorizations, self.fault = [], 0, [], lambda number: None

    def __call__(self, environ, start_response):
        with self._lock:
            self.seen.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("HTTP_RANGE")))
            self.authorizations.append(environ.get("HTTP_AUTHORIZATION", ""))
            fault = self.fault(len(self.seen))
        if fault == "error":
            start_response("500 Internal Server Error", [("Content-Length", "0")])
            return [b""]
        body = b"".join(self._app(environ, start_response))
        with self._lock:
            self.n_bytes += len(body)
        return Half(body) if fault == "cut" else [body]

    @property
    def n_requests(self):
        return len(self.seen)


class Half:
    """Half of an answer."""

    def __init__(self, body):
        self._body = body

    def __iter__(self):
        yield self._body[: len(self._body) // 2]


@contextmanager
def store_server():
    """A running server: its address and what watches it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        """No line on stderr for each request."""

        def log(self, type, message, *args):
            """Say nothing."""

    watched = Watched(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, watched, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", watched
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
