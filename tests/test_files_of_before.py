"""Releases and models that an earlier version wrote: they load, and say and predict what they did."""

import json
from pathlib import Path

import numpy as np
import pytest

import radoboost as rb

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED["scores"])
def test_a_model_predicts_the_same(name):
    model = rb.load_model(FIXTURES / f"{name}.model.json")
    assert model.scores(np.array(EXPECTED["rows"])).tolist() == EXPECTED["scores"][name]


@pytest.mark.parametrize("name", EXPECTED["scores"])
def test_a_release_is_learned_from_as_before(name):
    """Its rados and statement are read. From rados without noise we learn otherwise now, and nearly the same."""
    release = rb.load(FIXTURES / f"{name}.rado.parquet")
    assert release.mechanism["name"] == release.statement.mechanism == name
    assert release.rados.shape == (12, 4)
    learned = rb.MomentsClassifier().fit_rados(release).model_
    written = rb.load_model(FIXTURES / f"{name}.model.json")
    if name in ("plain", "feature-band"):
        cosine = learned.theta @ written.theta / np.linalg.norm(learned.theta) / np.linalg.norm(written.theta)
        assert cosine > 0.95  # there are twelve rados
    else:  # theta may differ in the last digits, for it comes from LAPACK
        np.testing.assert_allclose(learned.theta, written.theta, rtol=1e-9)
    assert learned.columns == written.columns and learned.classes == written.classes
