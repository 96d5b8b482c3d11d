"""The generated parts of docs/rooms.md and docs/several-holders.md that are about rooms, from kept results.

Each stands between two comments that name it. A part whose results are not there yet stays as it is. The tables of
errors are in experiments/results/rooms.md.
"""

import json
from pathlib import Path

from measuring import RESULTS, fill_page
from utility_page import signed, table

DOCS = Path(__file__).parent.parent / "docs"
ROOMS, HOLDERS, TABLES = DOCS / "rooms.md", DOCS / "several-holders.md", RESULTS / "rooms.md"
MAILBOX = RESULTS / "mailbox.json"
CASES = {
    "ten": "ten holders, 1 may be lost",
    "masked": "ten holders, 1 may be lost, masked sums",
    "three": "ten holders, 3 may be lost",
    "twenty": "twenty holders, 1 may be lost",
    "unsharpened": "ten holders, not sharpened",
    "shifted": "five holders whose columns differ",
}


def errors_table(rows, with_case):
    """Errors of rooms beside those of one release, and the paired difference."""
    head = ["domain", *(["holders"] if with_case else []), "columns", "epsilon", "one release", "room", "difference"]
    lines = []
    for row in rows:
        central, room = (f"{row['means'][way]:.1f} ({row['standard_errors'][way]:.1f})" for way in ("central", "room"))
        difference = f"{row['difference']:+.2f} ({row['standard_error_of_difference']:.2f})"
        case = [CASES[row["case"]]] if with_case else []
        lines.append([row["domain"], *case, row["columns"], f"{row['epsilon']:g}", central, room, difference])
    return table(head, lines, left=3 if with_case else 2)


def differences(rows):
    """By how many points rooms differ from one release, in words."""
    found = [row["difference"] for row in rows]
    return (
        f"{signed(sum(found) / len(found), 2)} points on average ({signed(min(found), 2)} to {signed(max(found), 2)})"
    )


def by_case(rows):
    """The same for each kind of room."""
    cases = {name: [row for row in rows if row["case"] == name] for name in CASES}
    return "\n".join(f"- {CASES[name]}: {differences(own)}" for name, own in cases.items() if own)


def sums_table(rows):
    """What one sum costs a holder."""
    head = ["holders", "numbers", "lost", "CPU ms of a holder", "signed, in the clear", "sent by a holder"]
    lines = [
        [
            row["parties"], f"{row['numbers']:,}", row["lost"], f"{row['all']:.0f}", f"{row['in_the_clear']:.0f}",
            f"{row['bytes'] / 1000:,.0f} kB",
        ]
        for row in rows
    ]  # fmt: skip
    return table(head, lines, left=0)


def processes_text(results):
    """What a room of five processes took."""
    error, central = results["error"], results["central_error"]
    return (
        f"Measured with {results['holders']} processes of `rado room join` on one folder of one machine with "
        f"{results['cores']} cores, Magic, {results['rows']:,} rows in all, epsilon {results['epsilon']:g} for one "
        f"record added or removed, {results['runs']} runs: {results['seconds']:.0f} s from the first start to the last "
        f"end (the median; {max(results['all_seconds']):.0f} s at most), {results['bytes'] / 1e6:.2f} MB and "
        f"{results['files']:,} messages in the folder, the same file at every holder, and a test error of {error:.1f} "
        f"per cent; one release of the same rows has {central:.1f}."
    )


def mailbox_text(document):
    """What a served mailbox did under load."""
    results = {name: part["results"] for name, part in document.items()}
    clients, readers, half = results["clients"], results["readers"], results["half"]
    room, five, load = results["restart"], results["five"], results["bodies"]
    return "\n".join(
        [
            f"- {clients['clients']} clients for {clients['seconds']:.0f} seconds: {clients['put']['per_second']:.0f} "
            f"messages put and as many read in a second, {clients['put']['median_ms']:.0f} and "
            f"{clients['get']['median_ms']:.0f} ms each in the median, {clients['failures']} failures, "
            f"{clients['highest_mb']:.0f} MB at most",
            f"- {readers['readers']} at once read a room with {readers['messages']:,} messages: all of them in "
            f"{readers['seconds']:.0f} s, {readers['highest_mb']:.0f} MB at most, {readers['left_mb']:.0f} MB after",
            f"- {half['plain']['half_requests']} half requests, at {half['plain']['files']} open files: other clients "
            f"wait {half['plain']['median_ms']:.0f} ms for an answer in the median, with TLS "
            f"{half['tls']['median_ms']:.0f} ms",
            f"- {load['bodies']} messages of {load['bytes'] / 2**20:.0f} MB that do not end: {load['highest_mb']:.0f} "
            "MB at most",
            f"- killed and started again in a room of {room['holders']} holders: all end with the same release, after "
            f"{room['seconds']:.0f} s, {room['highest_mb']:.0f} MB at most",
            f"- a room of {five['holders']} processes over HTTP takes {five['ratio']:.2f} times as long as one over a "
            "folder",
        ]
    )


def parts(document):
    """The text of each part, by page, as far as there are results."""
    rooms, holders, tables = {}, {}, {}
    if "room" in document:
        rows = document["room"]["results"]["rows"]
        ten = [row for row in rows if row["case"] == "ten"]
        tables["ten"] = errors_table(ten, False)
        tables["others"] = errors_table([row for row in rows if row["case"] != "ten"], True)
        holders["room"] = f"Over {len(ten)} cells the room differs from one release by {differences(ten)}."
        rooms["room"] = by_case(rows)
    if "sums" in document:
        rooms["sums"] = sums_table(document["sums"]["results"])
    if "processes" in document:
        rooms["processes"] = processes_text(document["processes"]["results"])
    served = json.loads(MAILBOX.read_text()) if MAILBOX.exists() else {}
    if served.keys() >= {"clients", "readers", "half", "bodies", "restart", "five"}:
        rooms["mailbox"] = mailbox_text(served)
    return {ROOMS: rooms, HOLDERS: holders, TABLES: tables}


def rendered():
    """The text of each page."""
    document = json.loads((RESULTS / "holders.json").read_text())
    return {page: fill_page(page, own) for page, own in parts(document).items()}


def write():
    for page, text in rendered().items():
        page.write_text(text)
