"""The studio's server: at 127.0.0.1 alone, patient with people and impatient with slow clients."""

from typing import Any

from fastapi import FastAPI

from radoboost import serving


class Server(serving.Server):
    """A server that also ends when the studio's Quit button was confirmed."""

    async def on_tick(self, counter: int) -> bool:
        app: Any = self.config.app
        return await super().on_tick(counter) or app.state.studio.quitting


def listening(port: int) -> serving.Listener:
    """A socket at 127.0.0.1, which no other machine reaches; port 0 is one that is free."""
    return serving.listening("127.0.0.1", port)


def studio_server(app: FastAPI) -> Server:
    """The server, not yet running: `run(sockets=[listening(port)])` runs it until it is stopped."""
    return Server(app, lifespan="on")
