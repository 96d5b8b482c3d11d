"""A progress bar on stderr for work that takes long: how much is done, rate, time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int | None], None]
_PATIENCE = 1.0  # seconds before a bar appears: most crafts are over by then


def silent(task: str, done: int, total: int | None) -> None:
    """A progress bar that shows nothing."""


@contextmanager
def no_progress() -> Iterator[Progress]:
    """`silent`, where a bar is a context."""
    yield silent


@contextmanager
def show_progress(unit: str = "rows") -> Iterator[Progress]:
    """A bar that appears after a second, where stderr is a terminal: call it with (task, done so far, in all).

    >>> with show_progress() as bar:
    ...     bar("summing rows", 10, 100)
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as Bars,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: object) -> Text:
            speed = getattr(task, "finished_speed", None) or getattr(task, "speed", None)
            return Text(f"{speed:,.0f} {unit}/s" if speed else "")

    console = Console(stderr=True)
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    tasks: dict[str, object] = {}
    begun = time.monotonic()

    def update(task: str, done: int, total: int | None) -> None:
        if not bars.live.is_started and time.monotonic() - begun > _PATIENCE:
            bars.start()
        if task not in tasks:
            tasks[task] = bars.add_task(task, total=total)
        bars.update(tasks[task], completed=done, total=total)  # type: ignore[arg-type]

    try:
        yield update
    finally:
        bars.stop()
