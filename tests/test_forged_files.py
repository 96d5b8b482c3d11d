"""Files that contradict themselves are refused, and what a holder keeps is for its owner alone."""

import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flat
import radoboost as rb
from radoboost.holder.mechanisms.mechanism import RoomParticipation
from radoboost.holder.mechanisms.statements import statement_in_room
from radoboost.privacy import Gaussian, Relation, event_from_dict, event_to_dict
from radoboost.release.parties import PartyGuarantee
from radoboost.tables import open_table

BOUNDS = {"a": (0, 1), "b": (0, 1)}
FRAME = pd.DataFrame({"a": np.linspace(0, 1, 40), "b": np.linspace(1, 0, 40), "y": [0, 1] * 20})


def craft(mechanism, n_rados=None):
    return rb.craft(FRAME, label="y", classes=(0, 1), mechanism=mechanism, n_rados=n_rados, counts=None, schema=BOUNDS)


def saved(release, place):
    release.save(place)
    return rb.load(place)


# ---- files


@pytest.mark.parametrize(("holders", "tolerate", "present"), [(5, 1, 5), (5, 2, 4), (6, 2, 4), (5, 1, 4)])
def test_figures_of_a_room_follow_from_its_event(tmp_path, holders, tolerate, present):
    """All four were replaced by far more noise, and the file was loaded: 0.0075 in place of about 1."""
    parts = tuple(
        {"name": f"h{k}", "fingerprint": f"{k:064x}", "until": None if k < present else 1} for k in range(holders)
    )
    release = craft(rb.Moments(1.0))
    event = event_from_dict(release.statement.event)
    statement = statement_in_room(
        release.statement, event, RoomParticipation(holders, tolerate, 2, present, parts), rb.Moments.secrets
    )
    honest = replace(release, statement=statement)
    assert saved(honest, tmp_path / "honest.rado.parquet").statement.holders == statement.holders
    for k, figure in enumerate(statement.holders.figures):
        figures = list(statement.holders.figures)
        figures[k] = PartyGuarantee.of(figure.case, Gaussian(400.0, Relation.RECORD), figure.delta, figure.size)
        forged = replace(statement, holders=replace(statement.holders, figures=tuple(figures)))
        with pytest.raises(rb.ReleaseError, match="do not trust it"):
            saved(replace(release, statement=forged), tmp_path / "forged.rado.parquet")
    for figures in ((), statement.holders.figures[:3]):
        forged = replace(statement, holders=replace(statement.holders, figures=figures))
        with pytest.raises(rb.ReleaseError, match="are not those of a room"):
            saved(replace(release, statement=forged), tmp_path / "forged.rado.parquet")


def test_an_event_about_fewer_rados_is_refused(tmp_path):
    """20 rados with the event of one: epsilon 0.216 in place of 1."""
    release, one = craft(rb.NoisyRados(1.0), 20), craft(rb.NoisyRados(1.0), 1)
    event = event_from_dict(release.statement.event)
    mechanism = rb.NoisyRados(noise_std=release.mechanism["noise_std"])
    alone = replace(craft(mechanism, 1).statement, not_protected=release.statement.not_protected)
    assert alone.epsilon < 0.5 and event != event_from_dict(one.statement.event)
    assert saved(release, tmp_path / "honest.rado.parquet").n_rados == 20
    with pytest.raises(rb.ReleaseError, match=r"has 20 rados, and its statement is about 1 of them"):
        saved(replace(release, statement=alone), tmp_path / "forged.rado.parquet")


@pytest.mark.parametrize("changed", [{"noise_std": 1e-6}, {"clip": 1000.0}, {"noise_std": None}])
@pytest.mark.parametrize("mechanism", [rb.NoisyRados(1.0), rb.NoisyExamples(1.0), rb.NoisyExamples(1.0, clip=0.3)])
def test_less_noise_than_the_promise_takes_is_refused(tmp_path, mechanism, changed):
    release = craft(mechanism, 5)
    assert saved(release, tmp_path / "honest.rado.parquet").mechanism == release.mechanism
    with pytest.raises(rb.ReleaseError, match="do not trust it"):
        saved(replace(release, mechanism={**release.mechanism, **changed}), tmp_path / "forged.rado.parquet")


@pytest.mark.parametrize("mechanism", [rb.NoisyRados(2.0), rb.NoisyExamples(2.0)])
def test_honest_releases_about_persons_are_loaded(tmp_path, mechanism):
    frame = FRAME.assign(who=[k // 3 for k in range(40)])
    release = rb.craft(
        frame,
        label="y",
        classes=(0, 1),
        mechanism=mechanism,
        n_rados=5,
        counts=None,
        schema=replace(rb.Schema.of(BOUNDS), person=rb.Person("who", 3)),
    )
    assert saved(release, tmp_path / "p.rado.parquet").statement == release.statement
    assert event_to_dict(event_from_dict(release.statement.event)) == release.statement.event


# ---- what a promise leaves no room for


@pytest.mark.parametrize("mechanism", [rb.Moments(1.0), rb.NoisyRados(1.0)])
def test_an_exact_number_of_rows_and_unknown_blocks_are_refused(mechanism, tmp_path):
    """Both loaded, under a statement by which the number of rows is protected."""
    release = rb.craft(
        FRAME, label="y", classes=(0, 1), mechanism=mechanism, n_rados=5, columns="linear", counts=None, schema=BOUNDS
    )
    extra = {**release.blocks, "extra": np.zeros((3, len(release.columns)))}
    for change, why in (
        ({"n_examples": len(FRAME)}, "one record added or removed, and the release has the exact number of rows"),
        ({"blocks": extra}, "has a block 'extra' that noisy .* do not have"),
    ):
        with pytest.raises(rb.ReleaseError, match=f"{why}; do not trust it"):
            saved(replace(release, **change), tmp_path / "f.rado.parquet")


# ---- modes and folders


def test_exact_counts_and_shares_are_for_their_owner_alone(tmp_path):
    place = tmp_path / "counts.json"
    rb.craft(FRAME, label="y", classes=(0, 1), mechanism=rb.Moments(1.0), counts=place, schema=BOUNDS)
    shares = (tmp_path / "1.share", tmp_path / "2.share")
    rb.share(FRAME, label="y", classes=(0, 1), to=shares, schema=BOUNDS)
    for path in (place, *shares):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("absent", ["a", "y", "who"])
def test_a_file_without_a_declared_column_has_empty_cells_there(tmp_path, kind, absent):
    """Where one record makes a file, that record decided whether a release came out, and the message named it.

    Where one record of many has the column, the file has it: so its rows must be the same with and without it.
    """
    frame = FRAME.assign(who=range(40))

    def write(folder, part):
        (tmp_path / folder).mkdir(exist_ok=True)
        place = tmp_path / folder / f"{len(part)}.{kind}"
        part.to_csv(place, index=False) if kind == "csv" else part.to_parquet(place)

    write("whole", frame[:30])
    write("odd", frame[:30])
    write("odd", frame[30:].drop(columns=absent))
    schema = rb.Schema({"a": rb.Number(0, 1, gaps=True), "b": rb.Number(0, 1)}, "y", (0, 1))
    seen = []
    options = {"schema": schema, "person": "who", "max_rows": 1}
    for folder in ("whole", "odd"):
        mechanism = rb.Moments(1e6)
        release = flat.craft(Path(tmp_path / folder), mechanism=mechanism, counts=None, **options)
        seen.append(release.mechanism["rows"]["good"])
    assert seen == pytest.approx([30, 40 if absent == "a" else 30], abs=6)  # noise of about 1; "a" may have gaps
    batches = []
    for more in ({}, {absent: 0.5 if absent == "a" else 0}):  # one record more, which has the column
        rows = [*frame[30:].drop(columns=absent).to_dict("records"), *([{**frame.iloc[0], **more}] if more else [])]
        shutil.rmtree(tmp_path / "odd", ignore_errors=True)
        write("odd", frame[:30])
        write("odd", pd.DataFrame(rows))
        table = open_table(tmp_path / "odd", label="y", person="who", row_by_row=True, schema=schema)
        values = np.concatenate([batch.values() for batch in table.batches()])
        batches.append(np.delete(values, [10] if more else [], axis=0))  # that record itself
    np.testing.assert_array_equal(*batches)
    write("none", frame[:30].drop(columns=absent))
    write("none", frame[30:].drop(columns=absent))
    with pytest.raises(rb.TableError, match=f"no column '{absent}'"):
        flat.craft(Path(tmp_path / "none"), mechanism=rb.Moments(1.0), counts=None, **options)
