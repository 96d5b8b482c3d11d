"""Whatever takes long to come, made in threads before it is asked for."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
P = TypeVar("P")

MOST_PARTS = 8  # that are read at once


class Ahead(Generic[T]):
    """Items that are made in a thread from now on, at most `most` of them before they are asked for.

    The thread is gone when the last item was made or making one failed, and after `stop` and `join`.
    """

    def __init__(self, items: Iterator[T], most: int) -> None:
        self._most, self._ready = most, deque[T]()
        self._failure: BaseException | None = None
        self._changed, self._ended, self._unwanted = threading.Condition(), False, False
        self._thread = threading.Thread(target=self._work, args=([items],), name="read-ahead", daemon=True)
        self._thread.start()

    def _work(self, given: list[Iterator[T]]) -> None:
        items = given.pop()  # so that nobody else holds it, and it is let go in this thread
        try:
            for item in items:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._ready) < self._most or self._unwanted)
                    if self._unwanted:
                        break
                    self._ready.append(item)
                    self._changed.notify_all()
                del item
        except BaseException as failure:
            self._failure = failure
        finally:
            del items
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._ended)
                if not self._ready:
                    break
                item = self._ready.popleft()
                self._changed.notify_all()
            yield item
            del item
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Say that no more items are wanted."""
        with self._changed:
            self._unwanted = True
            self._ready.clear()
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until the thread is gone."""
        self._thread.join()


def read_ahead(items: Iterator[T], most: int) -> Iterator[T]:
    """The same items, made in a thread, at most `most` of them before they are asked for."""
    return parts_ahead([items], lambda part: part, lambda part: 1.0, most)


def parts_ahead(
    parts: Sequence[P], read: Callable[[P], Iterator[T]], size: Callable[[P], float], most: int
) -> Iterator[T]:
    """The items of all parts, in order; while those of one are taken, the next parts are read, each in a thread.

    One part is read ahead, or several whose sizes are at most 1 in all. No thread is left when this is closed.
    """
    waiting, begun = deque(parts), deque[Ahead[T]]()
    sizes = deque[float]()
    try:
        while waiting or begun:
            while waiting and (
                len(begun) < 2 or (len(begun) < MOST_PARTS and sum(sizes) - sizes[0] + size(waiting[0]) <= 1)
            ):
                sizes.append(size(waiting[0]))
                begun.append(Ahead(read(waiting.popleft()), most))
            yield from begun[0]
            begun.popleft().join()
            sizes.popleft()
    finally:
        for ahead in begun:
            ahead.stop()
        for ahead in begun:
            ahead.join()
