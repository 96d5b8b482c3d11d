"""A file whose declared noise, or whose words, do not go with its promise is refused."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import flat
import radoboost as rb
from radoboost.holder.mechanisms.mechanism import StatementFacts
from radoboost.holder.mechanisms.moments.budget import NoiseShape
from radoboost.release.statement_check import check_release_statement

OPTIONS = [
    {}, {"unit": "label"}, {"relation": "replace"}, {"sharpen": False}, {"unit": "label", "sharpen": False},
]  # fmt: skip


def crafted(n_classes=3, epsilon=1.0, columns="linear", n_rows=600, bounds=((0, 1), (0, 1)), **options):
    rng = np.random.default_rng(5)
    y = rng.integers(0, n_classes, n_rows)
    x = np.column_stack([rng.random(n_rows), (y + rng.random(n_rows)) / n_classes])
    given = {"columns": columns, "bounds": bounds, "counts": None, "threads": 1}
    if options.pop("person", False):
        given |= {"person": "who", "max_rows": 3, "bounds": {"x0": (0, 1), "x1": (0, 1)}, "label": "label"}
        columns = {"who": np.arange(n_rows) // 4, "x0": x[:, 0], "x1": x[:, 1], "label": y}
        x, y = pa.table(columns), None
    return flat.craft(x, y, classes=tuple(range(n_classes)), mechanism=rb.Moments(epsilon, **options), **given)


@pytest.mark.parametrize("n_classes", [2, 3, 9])
@pytest.mark.parametrize("options", [*OPTIONS, {"person": True, "epsilon": 8.0}, {"person": True, "unit": "label"}])
def test_noise_is_what_the_promise_takes_and_not_a_thousandth_less(n_classes, options):
    release = crafted(n_classes, **options)
    check_release_statement(release)
    noise = release.mechanism["noise"]
    for stage in (stage for stage, value in noise.items() if value):
        less = replace(release, mechanism={**release.mechanism, "noise": {**noise, stage: noise[stage] * 0.5}})
        with pytest.raises(rb.ReleaseError, match=r"comes to mu .* do not trust it"):
            check_release_statement(less)
        none = replace(release, mechanism={**release.mechanism, "noise": {**noise, stage: 0.0}})
        with pytest.raises(rb.ReleaseError, match=f"declares no noise for its stage '{stage}'"):
            check_release_statement(none)
    all_less = {stage: 0.999 * value for stage, value in noise.items()}
    with pytest.raises(rb.ReleaseError, match="comes to mu"):
        check_release_statement(replace(release, mechanism={**release.mechanism, "noise": all_less}))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "options",
    [{"columns": "auto", "epsilon": 8.0}, {"columns": "degree-4", "epsilon": 8.0},
     {"columns": "degree-2", "unit": "label"}, {"bounds": "private", "epsilon": 8.0},
     {"bounds": "private", "epsilon": 8.0, "relation": "replace"}],
)  # fmt: skip
def test_every_plan_passes(n_classes, options, tmp_path):
    release = crafted(n_classes, n_rows=4000, **options)
    release.save(tmp_path / "a.rado.parquet")
    rb.load(tmp_path / "a.rado.parquet")
    noise = release.mechanism["noise"]
    for stage in (stage for stage, value in noise.items() if value):
        less = {**release.mechanism, "noise": {**noise, stage: noise[stage] / 2}}
        with pytest.raises(rb.ReleaseError, match="comes to mu"):
            check_release_statement(replace(release, mechanism=less))


def test_a_file_of_many_classes_with_a_statement_for_two_is_refused(tmp_path):
    release, place = crafted(9), tmp_path / "a.rado.parquet"
    of_two = rb.Moments(1.0).statement(StatementFacts("bounds", False, 0, 3, None, shape=NoiseShape(3)))
    exact = {**release.mechanism, "noise": dict.fromkeys(release.mechanism["noise"], 0.0)}
    replace(release, statement=of_two).save(place)
    with pytest.raises(rb.ReleaseError, match="speaks of two classes, and the release has 9; do not trust it"):
        rb.load(place)
    replace(release, mechanism=exact).save(place)
    with pytest.raises(rb.ReleaseError, match="declares no noise for its stage 'sum'"):
        rb.load(place)
    nothing = replace(release.statement, epsilon=math.inf, promises=())
    replace(release, mechanism=exact, statement=nothing).save(place)
    assert math.isinf(rb.load(place).statement.epsilon)  # it promises nothing


def test_words_are_those_of_as_many_classes():
    for n_classes, options in ((2, {"unit": "label"}), (5, {"unit": "label"}), (2, {}), (5, {})):
        statement = crafted(n_classes, **options).statement
        words = " ".join([*statement.promises, *statement.not_protected, statement.unit_of_privacy])
        assert ("rados drawn from it" in words) == (n_classes == 2)
        assert ("the two classes" in words) == (n_classes == 2) == ("the 5 classes" not in words)
        assert ("a label is flipped where it is replaced by any other of the 5 classes" in statement.unit_of_privacy
                ) == (n_classes == 5 and bool(options))  # fmt: skip
