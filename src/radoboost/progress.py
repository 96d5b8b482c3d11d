"""A progress bar on stderr for work that takes long: how much is done, rate, time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

Progress = Callable[[str, int, int | None], None]
_PATIENCE = 1.0  # seconds before a bar appears: most crafts are over by then
_LONGEST = 27  # characters of a task's name


def silent(task: str, done: int, total: int | None) -> None:
    """A progress bar that shows nothing."""


@contextmanager
def no_progress() -> Iterator[Progress]:
    """`silent` as a context manager, in place of `show_progress`."""
    yield silent


def bar_for(progress: bool | Progress | None) -> AbstractContextManager[Progress]:
    """A bar where it is wanted (True), none, or the caller's own: a callable, which may raise to end the work."""
    if callable(progress):
        return nullcontext(progress)
    return show_progress() if progress else no_progress()


@contextmanager
def show_progress(unit: str = "rows") -> Iterator[Progress]:
    """A bar that appears after a second, if stderr is a terminal: call it with (task, done so far, total or None).

    It is one line of at most 80 columns; a new task takes the place of the one before.
    """
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: object) -> Text:
            speed = getattr(task, "finished_speed", None) or getattr(task, "speed", None)
            return Text(f"{speed:,.0f} {unit}/s" if speed else "")

    console = Console(stderr=True)
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TaskProgressColumn(),
        Rate(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    line = bars.add_task("", total=None)
    start_time = time.monotonic()

    def update(task: str, done: int, total: int | None) -> None:
        bars.update(line, description=task[:_LONGEST], completed=done, total=total)
        if not bars.live.is_started and time.monotonic() - start_time > _PATIENCE:
            bars.start()

    try:
        yield update
    finally:
        bars.stop()
