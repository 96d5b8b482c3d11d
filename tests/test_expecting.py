"""What error to expect, before an epsilon is spent: monotone, near what was measured, and from public numbers only."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import radoboost as rb
from radoboost.holder.expected_error import NEAR, TYPICAL, expect, expected_error

MEASURED = Path(__file__).parent.parent / "experiments" / "results" / "utility.json"
epsilons = st.sampled_from([0.03, 0.1, 0.3, 1.0, 3.0, 10.0])


@given(
    epsilons, st.integers(1, 10**7), st.integers(1, 300), st.floats(0.01, 0.49), st.sampled_from(["record", "label"])
)
def test_more_rows_and_a_larger_epsilon_never_hurt(epsilon, rows, columns, best, unit):
    few = expected_error(rb.Moments(epsilon, unit=unit), rows, columns, best)
    assert best - 1e-12 <= few <= 0.5
    assert expected_error(rb.Moments(epsilon, unit=unit), 2 * rows, columns, best) <= few + 1e-12
    assert expected_error(rb.Moments(2 * epsilon, unit=unit), rows, columns, best) <= few + 1e-12
    assert expected_error(rb.Moments(epsilon, unit=unit), rows, columns + 1, best) >= few - 1e-12


@pytest.mark.parametrize(("epsilon", "rows", "columns"), [(0.1, 100, 10), (1.0, 559, 10), (0.3, 20_000, 97)])
def test_what_is_said_to_be_enough_is_enough(epsilon, rows, columns):
    found = expect(rb.Moments(epsilon), rows, columns)
    assert expected_error(rb.Moments(epsilon), found.enough_rows, columns, TYPICAL) <= NEAR
    assert expected_error(rb.Moments(epsilon), int(0.85 * found.enough_rows), columns, TYPICAL) > NEAR
    assert expected_error(rb.Moments(found.enough_epsilon), rows, columns, TYPICAL) <= NEAR
    assert expected_error(rb.Moments(0.98 * found.enough_epsilon), rows, columns, TYPICAL) > NEAR


def test_it_agrees_with_what_was_measured():
    """On the main tables, whose error without noise is known: on average, and mostly in each."""
    results = json.loads(MEASURED.read_text())["results"]
    errors = {(row["domain"], row["epsilon"], row["method"]): row["error"] for row in results["errors"]}
    for epsilon, slack in ((0.1, 4.0), (0.3, 2.0), (1.0, 1.0), (3.0, 0.5), (10.0, 0.5)):
        gaps = []
        for domain, size in results["domains"].items():
            if size["group"] == "main":
                best = errors[domain, None, "moments without noise"] / 100
                told = 100 * expected_error(rb.Moments(epsilon), size["train"], size["columns"] + 1, best)
                gaps.append(told - errors[domain, epsilon, "moments"])
        assert len(gaps) == 9 and np.abs(gaps).mean() < slack


def test_crafting_refuses_what_declared_rows_cannot_carry():
    mechanism, declared = rb.Moments(0.1), {"label": "y", "bounds": {"a": (0, 1), "b": (0, 1)}, "classes": (0, 1)}
    with pytest.raises(rb.ArgumentError, match="one record added or removed, would be spent for next to nothing"):
        rb.craft("there is no such file.csv", mechanism=mechanism, rows=50, **declared)
    with pytest.raises(rb.TableError):  # with more rows it goes on to open the table
        rb.craft("there is no such file.csv", mechanism=mechanism, rows=9_000, **declared)
    with pytest.raises(rb.ArgumentError, match="leave rows out"):
        rb.craft("there is no such file.csv", mechanism=rb.NoisyRados(1.0), rows=50, **declared)
    with pytest.raises(rb.ArgumentError, match="whole number of at least 1"):
        rb.craft("there is no such file.csv", mechanism=mechanism, rows=0, **declared)
    with pytest.raises(rb.ArgumentError, match="between 0 and 1/2"):
        expected_error(mechanism, 10, 3, 0.5)


def test_the_account_says_it(rado):
    code, out, err = rado("account", "--epsilon", 0.1, "--rows", 100, "--columns", 9)
    assert (code, err) == (0, "") and "cannot carry this epsilon" in out and "47.2 % of errors" in out
    assert "one record added or removed" in out
    answer = json.loads(
        rado("account", "--epsilon", 1, "--rows", 10_000, "--columns", 9, "--unit", "label", "--json")[1]
    )
    assert answer["expected"]["carries"] is True and answer["neighbours"] == "one label flipped"
    for bad in (["--rows", 100], ["--columns", 4], ["--rows", 0, "--columns", 4]):
        code, out, err = rado("account", "--epsilon", 1, *bad)
        assert (code, out, err.count("\n")) == (1, "", 1)
    for extra in (["--unit", "label"], ["--columns", 3]):
        assert rado("account", "--mechanism", "noisy-rados", "--epsilon", 1, *extra)[0] == 1
    code, out, err = rado("account", "--noise", 4, "--rows", 100, "--columns", 9)
    assert (code, out, err.count("\n")) == (1, "", 1)
