"""A slow twin of the rule for records of CSV files, in plain Python: nothing of radoboost, nothing remembered."""


def closing(text, at, separator):
    """Where the cell that begins with a quote at `at` ends, or None if nothing closes it."""
    at += 1
    while at < len(text):
        if text[at : at + 1] != b'"':
            at += 1
        elif text[at + 1 : at + 2] == b'"':
            at += 2
        else:
            rest = text[at + 1 :]
            closed = rest in (b"", b"\r") or rest.startswith((separator, b"\n", b"\r\n"))
            return at + 1 if closed else None
    return None


def record(text, at, separator):
    """The cells of the record at `at`, its length without its line end, and where the next begins; None if it is none.

    A cell comes as (content, how many bytes of it are written between quotes, if any).
    """
    begin, cells = at, []
    while True:
        if text[at : at + 1] == b'"':
            end = closing(text, at, separator)
            if end is None:
                return None
            content = text[at + 1 : end - 1]
            cells.append((content.replace(b'""', b'"'), len(content)))
        else:
            end = at
            while end < len(text) and text[end : end + 1] not in (separator, b"\n"):
                end += 1
            if text[end : end + 1] != separator and end > at and text[end - 1 : end] == b"\r":
                end -= 1
            cells.append((text[at:end], end - at))
        if text[end : end + 1] == separator:
            at = end + 1
            continue
        ending = next(mark for mark in (b"\r\n", b"\n", b"\r", b"") if text[end:].startswith(mark))
        return cells, end - begin, end + len(ending)


def rows(text, separator, n_columns, longest, person, lines=False):
    """What becomes of each record, and its cells, and where each begins."""
    found, at = [], 0
    nothing = [b""] * n_columns
    while at < len(text):
        feed = text.find(b"\n", at)
        line_end = len(text) if feed < 0 else feed + 1
        read = record(text[:line_end] if lines else text, at, separator)
        if read is None:
            found.append((1, nothing, at))
            at = line_end
            continue
        cells, length, behind = read
        contents = [content for content, _ in cells] + [b""] * (n_columns - len(cells))
        wide = any(contents[n_columns:])
        if wide or length > longest:
            kept = person < len(cells) and cells[person][1] <= longest
            own = [contents[k] if k == person and kept else b"" for k in range(n_columns)]
            found.append((3 if wide else 2, own, at))
        else:
            found.append((0, contents[:n_columns], at))
        at = behind
    return found
