"""A port of this machine at which something answers that is no cluster."""

import socket
import threading
from contextlib import contextmanager, suppress


@contextmanager
def answering(says):
    """A port at which something answers: with these bytes, after which it closes, or with silence."""
    kept = []

    def serve():
        with suppress(OSError):
            while True:
                kept.append(server.accept()[0])
                if says is not None:
                    with suppress(OSError):  # whoever asked may be gone
                        kept[-1].sendall(says)
                        kept[-1].shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in kept:
        connection.close()
