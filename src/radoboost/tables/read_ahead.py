"""Whatever takes long to come, made in a thread before it is asked for."""

import threading
from collections import deque
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterator[T], most: int) -> Iterator[T]:
    """The same items, made in a thread, at most `most` of them before they are asked for.

    The thread is gone when the last item was taken, when making one fails, and when this is closed.

    >>> list(read_ahead(iter(range(5)), 2))
    [0, 1, 2, 3, 4]
    """
    ready: deque[T] = deque()
    failures: list[BaseException] = []
    changed, ended, unwanted = threading.Condition(), False, False

    def work() -> None:
        nonlocal ended, items
        try:
            for item in items:
                with changed:
                    changed.wait_for(lambda: len(ready) < most or unwanted)
                    if unwanted:
                        break
                    ready.append(item)
                    changed.notify_all()
                del item
        except BaseException as failure:
            failures.append(failure)
        finally:
            items = iter(())  # what was not read is let go here, not in whatever thread comes last
            with changed:
                ended = True
                changed.notify_all()

    helper = threading.Thread(target=work, name="read-ahead", daemon=True)
    helper.start()
    try:
        while True:
            with changed:
                changed.wait_for(lambda: ready or ended)
                if not ready:
                    break
                item = ready.popleft()
                changed.notify_all()
            yield item
            del item
        if failures:
            raise failures[0]
    finally:
        with changed:
            unwanted = True
            changed.notify_all()
        helper.join()
