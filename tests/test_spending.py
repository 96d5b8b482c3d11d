"""What a failure after a booking says: what stays booked. And room on the disk, which is looked for before."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.errors import BudgetError, LedgerError, OutputError, RadoError, RoomError, what_is_spent
from radoboost.holder import disk_space
from radoboost.holder.rooms.mailbox import MemoryMailbox
from radoboost.holder.rooms.signed_messages import Identity
from radoboost.privacy import Gaussian, Relation
from radoboost.privacy import ledger as ledgers
from radoboost.privacy.ledger import Ledger
from schema_files import write_schema
from small_disks import filled

RADO = [sys.executable, "-m", "radoboost"]
STAYS = r"epsilon ([\d.]+) at delta 1e-06 stays booked for 'patients'"
COUNTS = f"{STAYS}; no release was written"


@pytest.fixture
def table(rng):
    return rng.uniform(0, 1, (300, 2)), rng.integers(0, 2, 300)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "clinic.ledger", "patients", epsilon=3.0)


def crafted(table, ledger, mechanism=None, **options):
    mechanism = rb.Moments(1.0) if mechanism is None else mechanism
    options = {"bounds": [[0, 1], [0, 1]], "classes": (0, 1), "counts": None, **options}
    return flat.craft(*table, mechanism=mechanism, ledger=ledger, **options)


def spent(ledger):
    """The epsilon that the ledger itself shows for its only release."""
    (release,) = ledger.to_dict()["releases"]
    return f"{release['epsilon']:.4g}"


# ---- the words


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError, RoomError, OutputError])
@pytest.mark.parametrize("n_bookings", [0, 1, 2])
def test_whatever_ends_a_craft_says_what_stays_booked(error, n_bookings, table, ledger):
    def stop(*step):
        if len(ledger.entries()) == n_bookings:
            raise error("it stopped")

    class Stopping(Ledger):
        def book(self, event, **names):
            number = super().book(event, **names)
            stop()
            return number

    books = Stopping(ledger.path)
    with pytest.raises(error) as caught:
        crafted(table, books, progress=stop if n_bookings == 0 else None)
    said = str(caught.value) if issubclass(error, RadoError) else "; ".join(getattr(caught.value, "__notes__", []))
    assert len(ledger.entries()) == n_bookings
    if n_bookings == 0:
        assert "booked" not in said
    else:
        assert re.search(COUNTS, said)[1] == spent(ledger) and said.count("booked") == 1
    assert (spent(ledger) == "1") == (n_bookings == 2) if n_bookings else True


def test_an_interrupt_in_a_booking_asks_the_ledger(table, ledger, monkeypatch):
    """Between the commit and the return of `book`, where nothing else knows that it is booked."""

    @contextmanager
    def interrupted(connection, writing=ledgers._ledger_transaction):
        with writing(connection):
            yield
        raise KeyboardInterrupt

    monkeypatch.setattr(ledgers, "_ledger_transaction", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        crafted(table, ledger)
    assert len(ledger.entries()) == 1
    assert re.fullmatch(COUNTS, what_is_spent(caught.value))[1] == spent(ledger)


def test_a_race_that_is_lost_after_the_counts(table, ledger):
    """Another release books what is left, between the two bookings of this one."""

    class Raced(Ledger):
        def book(self, event, **names):
            number = super().book(event, **names)
            if len(self.entries()) == 1:
                Ledger(self.path).book(Gaussian(1 / np.sqrt(float(self.left().mu_squared) * 0.999), Relation.RECORD))
            return number

    with pytest.raises(BudgetError) as caught:
        crafted(table, Raced(ledger.path))
    said = str(caught.value)
    assert "has no room for this; this was not booked; spent: 2 releases" in said and "nothing was" not in said
    counts = ledger.to_dict()["releases"][0]["epsilon"]
    assert float(re.search(COUNTS, said)[1]) == pytest.approx(counts) and counts < 0.2
    with pytest.raises(BudgetError, match="nothing was booked") as caught:
        crafted(table, ledger)
    assert "stays" not in str(caught.value)


def test_a_release_that_cannot_be_saved(table, ledger, tmp_path):
    release = crafted(table, ledger)
    for _ in range(2):
        with pytest.raises(OutputError) as caught:
            release.save(tmp_path / "nowhere" / "a.parquet")
        assert re.search(f"No such file or directory; choose another place; {COUNTS}", str(caught.value))[1] == "1"
    release.save(tmp_path / "a.parquet")
    with pytest.raises(OutputError) as caught:  # it has a file now
        release.save(tmp_path / "nowhere" / "a.parquet")
    assert "booked" not in str(caught.value)


def test_a_fit_that_fails_after_its_release(table, ledger, monkeypatch):
    def fail(*values):
        raise KeyboardInterrupt

    learner = rb.MomentsClassifier(mechanism=rb.Moments(1.0), classes=(0, 1), ledger=ledger, schema=[[0, 1]] * 2)
    monkeypatch.setattr(rb.MomentsClassifier, "_learn_from", fail)
    with pytest.raises(KeyboardInterrupt) as caught:
        learner.fit(*table)
    assert re.fullmatch(COUNTS, what_is_spent(caught.value))[1] == "1"


def test_a_score_that_nobody_sees(rado, small_files, ledger, tmp_path):
    """On two ledgers; interrupted while it counts, and where stdout is full."""
    (tmp_path / "t.csv").write_text("age,dose,smokes,ill\n" + "50,2.0,1,yes\n30,1.0,0,no\n" * 20)
    other = Ledger.create(tmp_path / "test.ledger", "test", epsilon=3.0)
    both = f"{STAYS} and epsilon ([\\d.]+) at delta 1e-06 stays booked for 'test'; no score was written"

    class Stopping(Ledger):
        def book(self, event, **names):
            super().book(event, **names)
            raise KeyboardInterrupt

    model, both_ledgers = small_files / "moments.model.json", [ledger, Stopping(other.path)]
    with pytest.raises(KeyboardInterrupt) as caught:
        rb.score(model, tmp_path / "t.csv", label="ill", epsilon=0.5, ledger=both_ledgers)
    assert set(re.fullmatch(both, what_is_spent(caught.value)).groups()) == {"0.5"}
    if os.path.exists("/dev/full"):
        books = ["--ledger", ledger.path, "--ledger", other.path]
        command = [*RADO, "score", model, tmp_path / "t.csv", "-l", "ill", "--epsilon", "0.5", *books]
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1
        assert re.fullmatch(f"rado: cannot print the result: No space left on device; {both}\n", done.stderr)


# ---- disks


def test_a_full_disk_of_a_ledger(table, ledger, monkeypatch):
    """SQLite itself says that it is full, at a page that it may not add; it has ended the transaction by then."""

    def full(place, look=False, connect=ledgers._connect_ledger):
        connection = connect(place, look)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(ledgers, "_connect_ledger", full)
    booked = []

    def fill():
        while len(booked) < 1000:
            booked.append(ledger.book(Gaussian(1e4, Relation.RECORD)))

    with pytest.raises(LedgerError, match=r"clinic.ledger: No space left on device; make space there$"):
        fill()
    assert [entry.id for entry in ledger.entries()] == booked and booked and ledger.problems() == []


@pytest.mark.parametrize("mechanism", [rb.Moments(1.0), rb.Moments(50.0, unit="label"), rb.NoisyRados(1.0)], ids=str)
@pytest.mark.parametrize("columns", ["auto", "degree-2"])
@pytest.mark.parametrize("n_columns", [1, 9])
def test_no_file_is_larger_than_the_room_that_was_looked_for(mechanism, columns, n_columns, rng, tmp_path, monkeypatch):
    X, y, sizes = rng.uniform(0, 1, (2000, n_columns)), rng.integers(0, 2, 2000), []

    def noted(*about, at_most=disk_space.largest_release_bytes):
        sizes.append(at_most(*about))
        return sizes[-1]

    monkeypatch.setattr(disk_space, "largest_release_bytes", noted)
    for rows in (20, 2000):
        options = {"bounds": [(0, 1)] * n_columns, "columns": columns, "n_rados": 100, "place": tmp_path / "a.parquet"}
        release = crafted((X[:rows], y[:rows]), None, mechanism, **options, counts=tmp_path / "c.json")
        release.save(tmp_path / "a.parquet")
        assert 0 < (tmp_path / "a.parquet").stat().st_size <= sizes[-1]
    assert sizes[0] == sizes[1]  # it does not depend on rows


def test_a_disk_without_room_is_refused_before_anything_is_booked(table, ledger, tmp_path, monkeypatch):
    place, counts = tmp_path / "a.parquet", tmp_path / "c.json"
    monkeypatch.setattr(disk_space, "free_disk_space_at", lambda file: 10_000 if file == place else None)
    with pytest.raises(OutputError, match=r"a.parquet: there are 10,000 bytes free, .*nothing was booked$"):
        crafted(table, ledger, place=place)
    monkeypatch.setattr(disk_space, "free_disk_space_at", lambda file: 100 if file == counts else None)
    with pytest.raises(OutputError, match=r"c.json: there are 100 bytes free, .*nothing was booked$"):
        crafted(table, ledger, place=place, counts=counts)
    assert ledger.entries() == [] and not place.exists() and not counts.exists()
    with pytest.raises(OutputError, match="nothing was booked"):  # before the others wait for this holder
        join_alone(ledger, place, counts)
    monkeypatch.setattr(disk_space, "free_disk_space_at", lambda file: None)  # where nobody knows, it is tried
    crafted(table, ledger, place=place, counts=counts).save(place)


def join_alone(ledger, place, counts):
    room, identity = MemoryMailbox(), Identity.create("north")
    rb.open_room(room, classes=(0, 1), parties=3, mechanism=rb.Moments(1.0), schema={"x0": (0, 1)})
    rb.join_room(
        room, np.array([[0.5]]), [0], identity=identity, confirm="", ledger=ledger, output=place, counts=counts, wait=1
    )


# ---- processes


@pytest.fixture
def clinic_command(tmp_path, rng, monkeypatch):
    """`rado craft` of a table that lies here, on a ledger; with words in place of some of its options."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{age:.1f},{'yes' if age > 50 else 'no'}" for age in rng.uniform(0, 100, 2000)]
    Path("t.csv").write_text("\n".join(["age,ill", *lines, ""]))
    write_schema("s.json", {"age": (0, 100)}, "ill", ["no", "yes"])

    def command(epsilon, ledger="clinic.ledger", output="a.parquet"):
        options = {"--schema": "s.json", "--epsilon": epsilon, "--ledger": ledger, "-o": output, "--threads": 1}
        return [*RADO, "craft", "t.csv", "-q", *(str(word) for option in options.items() for word in option)]

    return command


def start(command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_booked(process, number, path="clinic.ledger"):
    """Wait until so many bookings are on a ledger, or the process has ended."""
    while process.poll() is None:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as connection:
            if connection.execute("SELECT count(*) FROM bookings").fetchone()[0] >= number:
                return


def is_safe(ledger, output, allowed=True):
    """Whether a ledger is whole, and the file is a release that is booked there, or is not there."""
    booked = {entry.release: entry.digest for entry in ledger.entries()}
    assert ledger.problems() == []
    if Path(output).exists():
        release = rb.load(output)
        assert booked[release.id] in (None, release.digest)
    return booked


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_signals_after_a_booking(ending, clinic_command, ledger):
    process = start(clinic_command(1))
    until_booked(process, 1)
    process.send_signal(ending)
    _, said = process.communicate(timeout=300)
    assert process.returncode == (130 if ending == signal.SIGINT else -signal.SIGTERM)
    line = f"rado: interrupted; no unfinished file is left; {COUNTS}\n"
    assert re.fullmatch(line, said)[1] == spent(ledger) and not Path("a.parquet").exists()
    assert sorted(os.listdir()) == ["clinic.ledger", "s.json", "t.csv"] and is_safe(ledger, "a.parquet")


def kills(clinic_command, ledger, delays):
    for k, (number, delay) in enumerate(delays):
        process = start(clinic_command(0.1, output=f"{k}.parquet"))
        before = len(ledger.entries())
        until_booked(process, before + number)
        time.sleep(delay)
        process.kill()
        process.communicate(timeout=300)
        booked = is_safe(ledger, f"{k}.parquet")
        assert len(ledger.entries()) >= before + number or process.returncode == 0
    return booked


def test_kills_leave_bookings_and_no_half_file(clinic_command, ledger):
    kills(clinic_command, ledger, [(1, 0), (2, 0.01)])


@pytest.mark.slow
def test_twenty_kills(clinic_command, ledger):
    rng = np.random.default_rng(3)
    kills(clinic_command, ledger, [(int(rng.integers(0, 3)), rng.uniform(0, 0.4)) for _ in range(20)])
    done = subprocess.run([*RADO, "ledger", "verify", "clinic.ledger"], capture_output=True, text=True)
    assert done.returncode == 0 and "all is well" in done.stdout and not Path("clinic.ledger-journal").exists()


@pytest.mark.slow
def test_four_crafts_at_once(clinic_command, tmp_path):
    """One total with room for one of them: those who lose the race after their counts say what these cost."""
    ledger = Ledger.create(tmp_path / "one.ledger", "patients", epsilon=1.0)
    processes = [start(clinic_command(0.9, "one.ledger", f"{k}.parquet")) for k in range(4)]
    said = [process.communicate(timeout=300)[1] for process in processes]
    codes = [process.returncode for process in processes]
    releases = {release["release"]: release for release in ledger.to_dict()["releases"]}
    written = [k for k in range(4) if Path(f"{k}.parquet").exists()]
    assert len(written) <= 1 and [k for k, code in enumerate(codes) if code == 0] == written
    assert ledger.spent().within(ledger.allowance) and ledger.problems() == []
    lost = [f"{release['epsilon']:.4g}" for release in releases.values() if release["digest"] is None]
    named = [re.search(COUNTS, text)[1] for text in said if "stays booked" in text]
    assert sorted(named) == sorted(lost)  # each that is booked without a file was told so, and nobody else
    for k, text in enumerate(said):
        assert k in written or (text.count("\n") == 1 and "has no room for this" in text)
        assert ("nothing was booked" in text) == (k not in written and "stays booked" not in text)


@pytest.mark.skipif(os.name != "posix", reason="there are no limits on the sizes of files")
def test_a_limit_on_the_size_of_files(clinic_command, ledger):
    import resource

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    done = subprocess.run(clinic_command(1), preexec_fn=limited, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("rado: cannot write a.parquet: there are 200,000 bytes free")
    assert "nothing was booked" in done.stderr and ledger.entries() == [] and not Path("a.parquet").exists()


def test_full_disks(small_disk, clinic_command, ledger, table):
    disk = small_disk(64)
    done = subprocess.run(clinic_command(1, output=disk / "a.parquet"), capture_output=True, text=True)
    assert done.returncode == 1 and re.search(
        "a.parquet: there are 65,536 bytes free, .*nothing was booked", done.stderr
    )
    assert ledger.entries() == [] and os.listdir(disk) == []
    books = Ledger.create(disk / "l", "patients", epsilon=3.0)
    release = crafted(table, books)
    with filled(disk):
        with pytest.raises(OutputError) as caught:  # as if the disk had filled up after it was looked at
            release.save(disk / "b.parquet")
        assert re.search(f"b.parquet: No space left on device; choose another place; {COUNTS}", str(caught.value))
        done = subprocess.run(clinic_command(1, disk / "l"), capture_output=True, text=True)
        assert done.returncode == 1 and re.fullmatch(
            "rado: cannot use the ledger .*: No space left on device; make space there\n", done.stderr
        )
    assert {entry.release for entry in books.entries()} == {release.id} and books.problems() == []
