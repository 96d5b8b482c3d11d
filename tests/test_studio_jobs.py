"""Jobs of the studio: progress, cancelling, failures, two tabs; and what crafting leaves when it is cancelled."""

import threading
import time
import warnings

import numpy as np
import pytest

import flat
import radoboost as rb
from radoboost.errors import ArgumentError, RadoError, SchemaWarning
from radoboost.studio import jobs as jobs_module
from radoboost.studio.jobs import Cancelled, Jobs
from studio_pages import Client, running


@pytest.fixture
def jobs():
    all_jobs = Jobs()
    yield all_jobs
    all_jobs.close()
    until(lambda: not jobs_module._noting)  # a thread puts filters of warnings back once its job is over


def stepping(go, steps=1_000_000):
    """Work that says how far it is, until it is let go."""

    def work(job):
        for step in range(steps):
            job.progress("stepping", step, steps)
            if go.wait(0.005):
                return step
        return steps

    return work


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_a_job_says_how_far_it_is_and_what_came_out(jobs):
    go = threading.Event()
    job = jobs.start("Counting", stepping(go), address="/there")
    until(lambda: job.done > 2)
    assert (job.state, job.task, job.total, job.percent, job.address) == ("running", "stepping", 1_000_000, 0, "/there")
    assert jobs.running() == [job] and jobs.get(job.id) is job and not job.is_over
    go.set()
    assert job.wait(60) and job.state == "done" and job.result > 2 and jobs.running() == []


def test_a_cancelled_job_ends_at_its_next_step(jobs):
    job = jobs.start("Counting", stepping(threading.Event()))
    until(lambda: job.done > 2)
    job.cancel()
    assert job.wait(60) and job.state == "cancelled" and job.result is None and job.failure == ""
    job.cancel()
    assert job.state == "cancelled"


def test_jobs_of_a_lane_run_one_after_another_and_a_waiting_one_can_be_cancelled(jobs):
    go = threading.Event()
    first, second, third = (jobs.start(f"{k}", stepping(go)) for k in range(3))
    look = jobs.start("look", lambda job: "seen", lane="look")
    assert look.wait(60) and look.result == "seen"
    until(lambda: first.done > 2)
    assert (first.state, second.state, third.state) == ("running", "waiting", "waiting")
    second.cancel()
    assert second.wait(0.1) and second.state == "cancelled"
    go.set()
    assert third.wait(60) and (first.state, second.state, third.state) == ("done", "cancelled", "done")
    assert second.began is None


@pytest.mark.parametrize(
    ("error", "said"),
    [(ArgumentError("epsilon must be above 0"), "epsilon must be above 0"), (MemoryError(), "not enough memory")],
)
def test_a_foreseen_failure_is_one_line(jobs, error, said, capfd):
    def work(job):
        raise error

    job = jobs.start("Failing", work)
    assert job.wait(60) and job.state == "failed" and said in job.failure
    assert "Traceback" not in capfd.readouterr().err


def test_another_failure_is_a_number_and_a_traceback_on_the_terminal(jobs, capfd):
    job = jobs.start("Failing", lambda job: {}["secret"])
    assert job.wait(60) and job.state == "failed"
    assert "secret" not in job.failure and job.id[:8] in job.failure
    said = capfd.readouterr().err
    assert job.id[:8] in said and "KeyError: 'secret'" in said
    assert jobs.start("Next", lambda job: 1).wait(60)  # the lane goes on


def test_a_cancelled_job_is_no_failure_that_code_may_catch():
    assert not issubclass(Cancelled, Exception) and not issubclass(Cancelled, RadoError)


def test_warnings_belong_to_the_job_that_made_them(jobs):
    go, began = threading.Event(), threading.Event()

    def one(job):
        began.set()
        go.wait(60)
        warnings.warn(SchemaWarning(["numbers: age", "left out:\nname"]), stacklevel=1)

    def other(job):
        warnings.warn("of the other", UserWarning, stacklevel=1)

    filters, show = list(warnings.filters), warnings.showwarning
    first = jobs.start("one", one)
    assert began.wait(60)
    second = jobs.start("other", other, lane="look")
    assert second.wait(60)
    go.set()
    assert first.wait(60)
    assert (first.notices, second.notices) == (["numbers: age", "left out: name"], ["of the other"])
    until(lambda: warnings.showwarning is show)
    assert warnings.filters == filters


def test_old_jobs_are_forgotten_and_running_ones_are_not(jobs, monkeypatch):
    monkeypatch.setattr(jobs_module, "_MOST", 5)
    go = threading.Event()
    running_job = jobs.start("long", stepping(go))
    for _ in range(10):
        assert jobs.start("short", lambda job: 1, lane="look").wait(60)
    assert len(jobs.all()) == 5 and jobs.get(running_job.id) is running_job
    go.set()


def test_closing_cancels_everything_and_waits():
    all_jobs = Jobs()
    running_job, waiting = (all_jobs.start(name, stepping(threading.Event())) for name in ("one", "two"))
    until(lambda: running_job.done > 2)
    all_jobs.close()
    assert (running_job.state, waiting.state) == ("cancelled", "cancelled")
    late = all_jobs.start("late", lambda job: 1)
    assert late.wait(60) and late.state == "cancelled"


@pytest.mark.parametrize("booked", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_craft_that_is_cancelled_leaves_no_file_and_what_was_booked(jobs, tmp_path, rng, booked):
    """It is booked before noise is drawn: cancelled earlier it costs nothing, and later all that was booked."""
    table, rows = tmp_path / "t.csv", np.round(rng.random((20_000, 2)), 3)
    table.write_text("a,label\n" + "".join(f"{a},{int(b > 0.5)}\n" for a, b in rows))
    ledger = rb.Ledger.create(tmp_path / "t.ledger", "t", epsilon=3.0)
    declared = {"label": "label", "bounds": {"a": (0, 1)}, "classes": (0, 1)}

    def work(job):
        def progress(task, done, total):
            if bool(ledger.entries()) == booked:
                job.cancel()
            job.progress(task, done, total)

        mechanism = rb.Moments(epsilon=1.0, sharpen=False)
        release = flat.craft(table, **declared, mechanism=mechanism, ledger=ledger, counts=None, progress=progress)
        release.save(tmp_path / "t.rado.parquet")

    before = {path.name for path in tmp_path.iterdir()}
    job = jobs.start("Crafting", work)
    assert job.wait(300) and job.state == "cancelled", job.failure
    assert {path.name for path in tmp_path.iterdir()} == before
    assert bool(ledger.entries()) == booked


# ---- on pages


@pytest.fixture
def studio(tmp_path):
    (tmp_path / "patients.csv").write_text("age,ill\n70,yes\n50,no\n")
    with running(tmp_path) as client:
        yield client.enter()


def test_a_job_is_seen_from_two_tabs_and_after_a_reload(studio):
    go = threading.Event()
    job = studio.studio.jobs.start("Crafting <patients>", stepping(go))
    other = Client(studio.port, studio.studio).enter()
    until(lambda: job.done > 2)
    for tab in (studio, other, studio):
        text = tab.get("/")[2]
        assert "Crafting &lt;patients&gt;" in text and f'hx-get="/jobs/{job.id}/progress"' in text
        assert '<noscript><meta http-equiv="refresh"' in text
        status, headers, part = tab.get(f"/jobs/{job.id}/progress", **{"HX-Request": "true"})
        assert status == 200 and "<html" not in part and "<progress" in part and "stepping" in part
        assert "HX-Refresh" not in headers
    status, headers, _ = other.post(f"/jobs/{job.id}/cancel")
    assert (status, headers["Location"]) == (303, "/") and job.wait(60) and job.state == "cancelled"
    status, headers, part = studio.get(f"/jobs/{job.id}/progress", **{"HX-Request": "true"})
    assert headers["HX-Refresh"] == "true" and "Cancelled. No unfinished file is left." in part
    assert "Crafting" not in studio.get("/")[2] and "Cancelled." in studio.get(f"/jobs/{job.id}")[2]


def test_a_job_that_fails_says_why_on_its_page(studio):
    def work(job):
        job.note = "what was booked stays booked"
        raise ArgumentError("epsilon must be above 0; it is <b>")

    job = studio.studio.jobs.start("Crafting", work)
    assert job.wait(60)
    text = studio.get(f"/jobs/{job.id}")[2]
    assert "epsilon must be above 0; it is &lt;b&gt;" in text and "what was booked stays booked" in text


def test_quitting_names_what_it_cancels(studio):
    job = studio.studio.jobs.start("Crafting", stepping(threading.Event()))
    until(lambda: job.done > 2)
    assert "<li>Crafting</li>" in studio.get("/quit")[2]
    assert "The studio has ended" in studio.post("/quit", {"sure": "yes"})[2]
    assert job.wait(60) and job.state == "cancelled"
