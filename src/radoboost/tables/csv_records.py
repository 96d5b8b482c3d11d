"""What a record of a CSV file is: one row of the table, however many lines it has (C0 of docs/proofs/contributions.md).

At the start of a record, if every cell that begins with a quote is closed by an undoubled quote before a separator, a
line end or the end of the file, all up to the line end behind the last cell is one record. Otherwise the line is a row
of empty cells, and the next record begins behind its line feed. Elsewhere a quote is a character, and so is a
carriage return, but for one right before a line feed or the end of the file. Where a record is declared to be a line, a
quoted cell that goes on behind a line feed is not closed.

All is in `NEXT`: where an automaton that reads a record byte by byte is after each byte. An attempt at a record that
fails was within quotes at every line feed that it passed. Another attempt that is within quotes at one of these is in
the same state at the same byte, so it fails as well. Hence it is enough to remember how far attempts got that failed,
and the time is linear in the length of any file.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from radoboost.jit import jit

CELL, BARE, QUOTED, CLOSED, RETURN, FAILED, DONE = range(7)  # states; at the start of a cell, in one, ...
OTHER, SEPARATOR, QUOTE, FEED, CARRIAGE = range(5)  # kinds of bytes
NEXT = np.array(
    [  # OTHER, SEPARATOR, QUOTE, FEED, CARRIAGE
        [BARE, CELL, QUOTED, DONE, BARE],  # CELL
        [BARE, CELL, BARE, DONE, BARE],  # BARE, in a cell that does not begin with a quote
        [QUOTED, QUOTED, CLOSED, QUOTED, QUOTED],  # QUOTED
        [FAILED, CELL, QUOTED, DONE, RETURN],  # CLOSED, behind a quote that is the last one, or the first of two
        [FAILED, FAILED, FAILED, DONE, FAILED],  # RETURN, behind a carriage return that follows the last one
        [FAILED, FAILED, FAILED, DONE, FAILED],  # FAILED, up to the end of the line
    ],
    dtype=np.int8,
)
GOOD, OPEN_QUOTE, TOO_LONG, TOO_WIDE = range(4)  # what became of a record
NOWHERE = 1 << 62  # behind the end of every file
_MOST_CELLS = 1 << 21  # at a time
Chunks: TypeAlias = Iterable[bytes]
Bytes: TypeAlias = NDArray[np.uint8]
Codes: TypeAlias = NDArray[np.int8]
Places: TypeAlias = NDArray[np.int64]


@cache
def csv_byte_kinds(separator: str) -> NDArray[np.int8]:
    kinds = np.zeros(256, dtype=np.int8)
    kinds[[ord('"'), ord("\n"), ord("\r"), ord(separator)]] = QUOTE, FEED, CARRIAGE, SEPARATOR
    return kinds


def split_first_record(text: bytes, separator: str, final: bool = True) -> list[tuple[bytes, bool]] | None:
    """The cells of the first record, and whether each stands between quotes.

    None if the line is no record, or, unless the text is `final`, goes on behind it.
    """
    kinds, state, begin, cells = csv_byte_kinds(separator), CELL, 0, []
    for at, byte in enumerate(text):
        state = int(NEXT[state, kinds[byte]])
        if state in (CELL, DONE):
            cells.append(_strip_carriage_return(text[begin:at], state == DONE))
            begin = at + 1
        if state in (DONE, FAILED):
            break
    if final and state in (CELL, BARE, CLOSED, RETURN):
        cells.append(_strip_carriage_return(text[begin:], True))
        state = DONE
    return [(_unquoted_cell(cell), cell.startswith(b'"')) for cell in cells] if state == DONE else None


def _strip_carriage_return(cell: bytes, last: bool) -> bytes:
    """A cell, without the carriage return that is part of the line end if it is the last one."""
    return cell.removesuffix(b"\r") if last else cell


def _unquoted_cell(cell: bytes) -> bytes:
    """What a cell holds, given as it is written."""
    return cell[1:-1].replace(b'""', b'"') if cell.startswith(b'"') else cell


@dataclass(frozen=True)
class Records:
    """How records are told apart, and which of their `n_columns` cells are read.

    With `lines` a record is a line. Of a record of more than `longest` bytes, or with more cells, only the column
    `person` is read, and that too is empty if it has more than `longest`.
    """

    separator: str
    lines: bool
    n_columns: int
    columns: tuple[int, ...]
    person: int
    longest: int

    def read(self, again: Callable[[], Chunks]) -> Iterator[tuple[NDArray[np.int8], list[pa.Array]]]:
        """What became of each record, and the cells of each column as bytes, some megabytes at a time.

        `again()` gives all bytes from their beginning: those of a file, or from the start of one record to that of
        another.
        """
        kernels, kinds, slots = _kernels(), csv_byte_kinds(self.separator), np.full(self.n_columns, -1)
        slots[list(self.columns)] = np.arange(len(self.columns))
        chunks = iter(again())
        text, first, at, final = b"", 0, 0, False  # the text begins at `first`
        failed_until = NOWHERE if self.lines else 0
        failures: deque[tuple[int, int]] | None = None
        while True:
            most = min(text.count(b"\n", at) + 1, max(1, _MOST_CELLS // max(1, len(self.columns))))
            starts, ends = (np.zeros((len(self.columns), most), dtype=np.int64) for _ in range(2))
            fates, view = np.empty(most, dtype=np.int8), np.frombuffer(text, dtype=np.uint8)
            n, at, reached = kernels.split_records(
                view, at, final, kinds, NEXT, slots, self.person, self.longest, failed_until - first, starts, ends,
                fates,
            )  # fmt: skip
            failed_until = first + reached
            if n:
                yield (
                    fates[:n],
                    [_record_cells_as_arrow(kernels, view, starts[k, :n], ends[k, :n]) for k in range(len(starts))],
                )
            if n == most:
                continue
            if final:
                return
            if len(text) - at > self.longest + 2:  # more than a record that is read
                before = failed_until
                if failures is None:
                    failures = deque(() if self.lines else failed_attempts(again(), self.separator, self.longest))
                while failures and failures[0][0] <= first + at:
                    failed_until = max(failed_until, failures.popleft()[1])
                if failed_until == before:
                    fate, cell, text, at, first = self._follow(text, at, first, chunks, failed_until)
                    cells = [cell if column == self.person else b"" for column in self.columns]
                    yield np.array([fate], dtype=np.int8), [pa.array([cell], pa.binary()) for cell in cells]
                continue
            pieces, wanted = [text[at:]], len(text) - at
            while wanted >= 0 and not final:  # at least as much again: what is looked at twice adds up to little
                chunk = next(chunks, None)
                final = chunk is None
                pieces.append(chunk or b"")
                wanted -= len(pieces[-1])
            text, first, at = b"".join(pieces), first + at, 0

    def _follow(
        self, text: bytes, at: int, first: int, chunks: Iterator[bytes], failed_until: int
    ) -> tuple[int, bytes, bytes, int, int]:
        """What becomes of a record that is too long to be held, its person, and the text behind it."""
        kernels, kinds = _kernels(), csv_byte_kinds(self.separator)
        state, person = np.array([CELL, 0, 0, 0, 0, 0]), b""
        while True:
            view = np.frombuffer(text, dtype=np.uint8)
            at, begin, end = kernels.follow_record(
                view, at, kinds, NEXT, state, self.person, self.n_columns, failed_until - first
            )
            person = (person + text[begin:end])[: self.longest + 4]
            if state[0] == DONE:
                break
            chunk = next(chunks, None)
            if chunk is None:
                state[2] |= state[0] == QUOTED
                around = {CLOSED: 2, RETURN: 3}.get(int(state[0]), int(state[4]))
                state[5] |= state[1] >= self.n_columns and state[3] > around
                state[1] += 1
                break
            text, at, first = chunk, 0, first + len(text)
        if state[2]:
            return OPEN_QUOTE, b"", text, at, first
        fate = TOO_WIDE if state[5] else TOO_LONG
        person = _strip_carriage_return(person, state[1] == self.person + 1)
        inside = len(person) - (2 if person.startswith(b'"') else 0)
        return fate, b"" if inside > self.longest else _unquoted_cell(person), text, at, first


def _record_cells_as_arrow(
    kernels: SimpleNamespace, view: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> pa.Array:
    """Cells as a column of bytes, with quotes that are doubled once."""
    offsets, content = np.zeros(len(starts) + 1, dtype=np.int32), np.empty(int((ends - starts).sum()), dtype=np.uint8)
    kernels.gather_cells(view, starts, ends, offsets, content)
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(content)])


# ---- one look over a file, forwards


def failed_attempts(chunks: Chunks, separator: str, longest: int) -> list[tuple[int, int]]:
    """Where attempts at a record begin that fail after at least `longest` bytes, and how far each got."""
    return _Look(separator, longest, NOWHERE, 0, 1).over(chunks).spans


def csv_record_starts(chunks: Chunks, separator: str, lines: bool, first: int, size: int, every: int) -> list[int]:
    """Starts of records in a file, each the first behind a multiple of `every`; chunks begin at `first`."""
    look = _Look(separator, NOWHERE, every, first, size // every + 2)
    found = look.over(chunks, lines=lines).starts[: look.state[5]].tolist()
    return [start for start in found if start < size]


class _Look:
    """The states of an attempt at a record, and of one that would begin with the latest line if the first failed.

    While an attempt goes on, these are the two only ways in which the bytes that it passed can be cut into records, so
    no byte is needed again.
    """

    def __init__(self, separator: str, longest: int, every: int, first: int, most: int) -> None:
        self._separator, self._longest, self._every, self._first = separator, longest, every, first
        # Both states (the second is -1 before the first line feed) and where they began; what starts of records are
        # looked for next; how many were found, and how many of them for certain; how many spans.
        self.state = np.array([CELL, first, -1, first, max(every, first), 0, 0, 0])
        self.starts = np.zeros(most, dtype=np.int64)
        self.spans: list[tuple[int, int]] = []

    def over(self, chunks: Chunks, *, lines: bool = False) -> "_Look":
        kernels, kinds, at = _kernels(), csv_byte_kinds(self._separator), self._first
        for chunk in chunks:
            if lines or (self.state[2] < 0 and self.state[0] in (CELL, BARE) and b'"' not in chunk):
                self._pass(chunk, at)
            else:
                spans = np.empty((2 * len(chunk) // self._longest + 4, 2), dtype=np.int64)
                view = np.frombuffer(chunk, dtype=np.uint8)
                kernels.scan_records(view, at, kinds, NEXT, self._every, self._longest, self.state, self.starts, spans)
                self.spans += map(tuple, spans[: self.state[7]].tolist())
                self.state[7] = 0
            at += len(chunk)
        if self.state[2] >= 0 and self.state[0] == QUOTED:
            if at - self.state[1] >= self._longest:
                self.spans.append((int(self.state[1]), at))
        elif self.state[2] >= 0:
            self.state[5] = self.state[6]
        return self

    def _pass(self, chunk: bytes, first: int) -> None:
        """Every line feed ends a record here."""
        last = chunk.rfind(b"\n")
        while last >= 0 and self.state[4] <= first + last + 1:
            start = first + chunk.index(b"\n", max(0, int(self.state[4]) - 1 - first)) + 1
            self.starts[self.state[5]] = start
            self.state[5:7] += 1
            self.state[4] = (start // self._every + 1) * self._every
        if last >= 0:
            self.state[1] = first + last + 1
        if chunk:
            self.state[0] = CELL if chunk[-1:] in (b"\n", self._separator.encode()) else BARE


# ---- compiled


@cache
def _kernels() -> SimpleNamespace:
    """The functions below, compiled when they are first needed."""
    return SimpleNamespace(
        **{function.__name__: jit(function) for function in (split_records, gather_cells, follow_record, scan_records)}
    )


def split_records(
    text: Bytes,
    at: int,
    final: bool,
    kinds: Codes,
    following: Codes,
    slots: Places,
    person: int,
    longest: int,
    failed_until: int,
    starts: Places,
    ends: Places,
    fates: Codes,
) -> tuple[int, int, int]:
    """Find records from `at` on: how many, where the next one begins, and how far attempts got that failed.

    For each record: what became of it, and where the content of its cells begins and ends. An attempt that is within
    quotes at a line feed before `failed_until` fails, and one that fails moves that on. Unless it is the `final` one,
    the text may end within a record.
    """
    size, n = len(text), 0
    while at < size and n < len(fates):
        begin = cell = at
        state, column, feed, wide = CELL, 0, -1, False
        while True:
            after = DONE
            if at < size:
                kind = kinds[text[at]]
                if kind == OTHER and (state in (BARE, QUOTED)):
                    at += 1
                    continue
                after = following[state, kind]
                if kind == FEED and state == QUOTED:
                    if feed < 0:
                        feed = at
                    if at < failed_until:
                        after = FAILED
            elif not final:
                return n, begin, failed_until
            elif state == QUOTED:
                after = FAILED
            if after in (CELL, DONE):
                if column >= len(slots) or slots[column] >= 0:
                    if state == CLOSED:
                        start, end = cell + 1, at - 1
                    elif state == RETURN:
                        start, end = cell + 1, at - 2
                    else:
                        ended = after == DONE and at > cell and kinds[text[at - 1]] == CARRIAGE
                        start, end = cell, at - 1 if ended else at
                    if column >= len(slots):
                        wide = wide or end > start
                    else:
                        starts[slots[column], n], ends[slots[column], n] = start, end
                column += 1
                cell = at + 1
            if after in (DONE, FAILED):
                break
            state = after
            at += 1
        fate = GOOD
        if after == FAILED:
            failed_until = max(failed_until, at)
            if feed < 0:
                feed = at
                while feed < size and kinds[text[feed]] != FEED:
                    feed += 1
                if feed == size and not final:
                    return n, begin, failed_until
            at = feed
            fate = OPEN_QUOTE
        elif wide:
            fate = TOO_WIDE
        elif at - begin - (at > begin and kinds[text[at - 1]] == CARRIAGE) > longest:
            fate = TOO_LONG
        if fate != GOOD:
            for slot in range(len(starts)):
                kept = fate != OPEN_QUOTE and person >= 0 and slot == slots[person]
                if not kept or ends[slot, n] - starts[slot, n] > longest:
                    starts[slot, n] = ends[slot, n] = 0
        fates[n] = fate
        n += 1
        at = min(at + 1, size)
    return n, at, failed_until


def gather_cells(text: Bytes, starts: Places, ends: Places, offsets: NDArray[np.int32], content: Bytes) -> None:
    """Copy cells behind each other. Within a cell that began with a quote, of two quotes one is copied."""
    place = 0
    for k in range(len(starts)):
        at, end = starts[k], ends[k]
        quoted = at > 0 and text[at - 1] == 34
        while at < end:
            content[place] = text[at]
            place += 1
            at += 2 if quoted and text[at] == 34 else 1
        offsets[k + 1] = place


def follow_record(
    text: Bytes,
    at: int,
    kinds: Codes,
    following: Codes,
    state: Places,
    person: int,
    n_columns: int,
    failed_until: int,
) -> tuple[int, int, int]:
    """Go on with a record until it ends, or the text does: where that is, and where its person is in this text.

    `state` has the state, the number of the cell, whether the attempt failed, how many bytes the cell has so far,
    whether the last one is a carriage return, and whether a cell behind the last column is not empty.
    """
    now, column, wrong, length, returned, wide = state[0], state[1], state[2], state[3], state[4], state[5]
    begin = end = at
    while at < len(text) and now != DONE:
        kind = kinds[text[at]]
        after = following[now, kind]
        if kind == FEED and now == QUOTED and at < failed_until:
            wrong, after = 1, DONE
        if after == FAILED:
            wrong = 1
        if column == person:
            end = at + 1
        if after in (CELL, DONE):
            if column == person:
                end = at
            around = 2 if now == CLOSED else 3 if now == RETURN else 1 if after == DONE and returned else 0
            if column >= n_columns and length > around:
                wide = 1
            column += 1
            length = -1
            if column == person:
                begin = end = at + 1
        returned = 1 if kind == CARRIAGE else 0
        length += 1
        now = after
        at += 1
    state[0], state[1], state[2], state[3], state[4], state[5] = now, column, wrong, length, returned, wide
    return at, begin, end


def scan_records(
    text: Bytes,
    first: int,
    kinds: Codes,
    following: Codes,
    every: int,
    longest: int,
    state: Places,
    starts: Places,
    spans: Places,
) -> None:
    """Go on with a look over a file; see `_Look`."""
    now, begin, second, line = state[0], state[1], state[2], state[3]
    wanted, n_starts, n_certain, n_spans = state[4], state[5], state[6], 0
    for at in range(len(text)):
        kind = kinds[text[at]]
        if kind == OTHER and second < 0 and (now in (BARE, QUOTED)):
            continue
        after = following[now, kind]
        if second >= 0:
            second = following[second, kind]
        if kind == FEED:
            place = first + at + 1
            if after == DONE:
                n_starts = n_certain
                after = CELL
                begin, second = place, -1
                wanted = every if n_starts == 0 else (starts[n_starts - 1] // every + 1) * every
            else:  # within quotes
                second, line = CELL, place
            if place >= wanted:
                starts[n_starts] = place
                n_starts += 1
                wanted = (place // every + 1) * every
            if after == CELL:
                n_certain = n_starts
        elif after == FAILED and second >= 0:
            if first + at - begin >= longest:
                spans[n_spans, 0], spans[n_spans, 1] = begin, first + at
                n_spans += 1
            n_certain = n_starts
            after, begin, second = second, line, -1
        now = after
    state[0], state[1], state[2], state[3] = now, begin, second, line
    state[4], state[5], state[6], state[7] = wanted, n_starts, n_certain, n_spans
