"""What people are at: objects of the ways, each under a random id, which is all that an address says."""

import secrets
import threading
from typing import Any, TypeVar

from radoboost.errors import ArgumentError

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
