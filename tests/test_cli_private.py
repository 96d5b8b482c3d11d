"""The command rado where privacy is promised: templates, refusals, accounts, and what reaches stderr alone."""

import io
import json
import math
import os
import sys
from pathlib import Path

import pytest

import flat
import radoboost as rb
from schema_files import write_schema


@pytest.fixture
def declared(clinic, tmp_path):
    """A template for the clinic, filled in."""
    bounds = {"age": (0, 100), "dose": (0, 1)}
    return write_schema(tmp_path / "clinic.schema.json", bounds, "readmitted", ["no", "yes"])


def test_the_way_from_a_template_to_predictions(rado, clinic):
    code, out, err = rado("schema", clinic, "--label", "readmitted")
    assert (code, err) == (0, "") and out.startswith("wrote clinic.schema.json\n  age         number    low? high?\n")
    assert "decide from public knowledge, for a promise about records: age, dose, classes" in out
    template = json.loads(Path("clinic.schema.json").read_text())
    assert template["columns"] == {
        "age": {"kind": "number", "low": None, "high": None},  # values are not looked at
        "dose": {"kind": "number", "low": None, "high": None},
    }
    assert (template["classes"], template["label"], "inferred" in template) == (None, "readmitted", False)
    code, _, err = rado("craft", clinic, "--epsilon", 1, "--schema", "clinic.schema.json")
    assert code == 1 and err.count("\n") == 1
    assert "'dose'" in err and '"low": LOW' in err
    for name, pair in (("age", (0, 100)), ("dose", (0, 1))):
        template["columns"][name]["low"], template["columns"][name]["high"] = pair
    Path("clinic.schema.json").write_text(json.dumps(template))
    code, _, err = rado("craft", clinic, "--epsilon", 1, "--schema", "clinic.schema.json")
    assert code == 1 and "--classes NEG,POS" in err and err.count("\n") == 1
    template["classes"] = ["no", "yes"]
    Path("clinic.schema.json").write_text(json.dumps(template))
    code, out, err = rado("craft", clinic, "--epsilon", 1, "-n", 50, "--schema", "clinic.schema.json")
    assert (code, err) == (0, "")
    assert "50 rados of 3 features, from an undisclosed number of examples" in out
    assert "Promise of epsilon 1 for one record added or removed" in out
    release = rb.load("clinic.rado.parquet")
    assert release.mechanism["name"] == "moments" and release.mechanism["unit"] == "record"
    assert rado("learn", "clinic.rado.parquet")[0] == 0
    code, out, _ = rado("predict", "clinic.model.json", clinic)
    assert code == 0 and "60 rows" in out
    options = [
        "--set",
        "unit=label",
        "--set",
        "sharpen=no",
        "-o",
        "label.rado.parquet",
        "--schema",
        "clinic.schema.json",
    ]
    out = rado("craft", clinic, "--epsilon", 1, *options)[1]
    assert "one label flipped" in out and "Features are not protected at all" in out
    assert "one record added or removed" in rado("show", "clinic.model.json")[1]


def test_a_template_from_the_data_is_marked_and_refused(rado, clinic):
    code, out, _ = rado("schema", clinic, "-l", "readmitted", "--from-data", "--json")
    filled = json.loads(out)
    assert filled["inferred"] == ["classes", "dialect"] and filled["classes"] == ["no", "yes"]
    assert filled["columns"]["age"] == {"kind": "number", "low": 20, "high": 79, "fill": 49.5, "inferred": True}
    code, _, err = rado("craft", clinic, "--epsilon", 1, "--schema", "clinic.schema.json")
    assert code == 1 and "read off the table" in err and err.count("\n") == 1
    assert sorted(os.listdir(".")) == ["clinic.schema.json"]
    assert rado("craft", clinic, "--schema", "clinic.schema.json", "--set", "scale=bounds", "-n", 5)[0] == 0


def test_an_epsilon_without_a_schema_is_explained_in_one_line(rado, clinic):
    code, out, err = rado("craft", clinic, "-l", "readmitted", "--epsilon", 1)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert f"rado schema {clinic} --label readmitted" in err and "--schema" in err and "--schema private" in err
    assert sorted(os.listdir(".")) == []


REFUSED = {
    "epsilon 0": (["--epsilon", 0], "epsilon must be positive"),
    "epsilon NaN": (["--epsilon", "nan"], "epsilon must be a number"),
    "delta 0": (["--epsilon", 1, "--delta", 0], "delta must lie between"),
    "standard": (["--epsilon", 1, "--set", "scale=standard"], "moments has no setting 'scale'"),
    "a seed": (["--mechanism", "noisy-rados", "--epsilon", 1, "--seed", 3], "--set i_know=yes"),
    "a seed for moments": (["--epsilon", 1, "--seed", 3], "leave the seed out"),
    "a support": (["--epsilon", 1, "--signatures", "fixed:0.5"], "leave signatures out"),
    "a band without a column": (["--mechanism", "feature-band", "--epsilon", 1], "needs --set feature=COL"),
    "a band on numbers": (
        ["--mechanism", "feature-band", "--epsilon", 9, "--set", "feature=age"],
        "'age' is not binary",
    ),
    "epsilon for plain": (["--mechanism", "plain", "--epsilon", 1], "plain has no epsilon"),
    "noise and epsilon": (["--epsilon", 1, "--set", "noise_std=1"], "epsilon, or noise_std"),
    "a setting that is none": (["--epsilon", 1, "--set", "weight=3"], "its settings are: unit, sharpen,"),
    "no setting": (["--epsilon", 1, "--set", "sharpen"], "--set takes NAME=VALUE"),
    "a word for yes or no": (["--epsilon", 1, "--set", "sharpen=perhaps"], "sharpen takes yes or no"),
    "a person without a number": (["--epsilon", 1, "--person", "age"], "--person age:K"),
    "something else to compose with": (["--epsilon", 1, "--compose", "none.parquet"], "cannot read none.parquet"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line_and_leave_nothing(case, rado, clinic, declared):
    options, message = REFUSED[case]
    code, out, err = rado("craft", clinic, "--schema", declared, *options)
    assert (code, out) == (1, "") and message in err and err.count("\n") == 1
    assert sorted(os.listdir(".")) == []


def test_counts_reach_a_file_that_the_holder_asks_for_and_nothing_else(rado, clinic, declared, tmp_path):
    dirty = tmp_path / "dirty.csv"
    lines = clinic.read_text().splitlines()
    lines[1], lines[2], lines[3], lines[4] = "nan,0.5,no", "30,inf,no", "30,0.5,maybe", "9000,0.5,no"
    dirty.write_text("\n".join(lines) + "\n")
    common = ["--mechanism", "noisy-rados", "--epsilon", 1, "-n", 20]
    options = [*common, "--schema", declared, "--json", "-o", "r.parquet"]
    code, out, err = rado("craft", dirty, *options, "--counts", "counts.json")
    assert (code, err) == (0, "")
    counts = json.loads(Path("counts.json").read_text())
    assert counts["rows"] - counts["contribute"] == 1 and counts["beyond_bounds"]["age"] == 1
    clean = rado("craft", clinic, *options, "--force")
    assert clean[2] == ""
    assert {**json.loads(clean[1]), "id": ""} == {**json.loads(out), "id": ""}  # but for the id, which is random
    code, out, _ = rado("check", dirty, "--schema", declared)
    assert code == 0 and "for the data holder alone" in out and "'age' 1" in out
    checked = json.loads(rado("check", dirty, "--schema", declared, "--json")[1])
    assert checked.pop("unfit")["dose"]["cells"] == 1 and checked == counts


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_counts_reach_a_terminal_unless_told_not_to(quiet, clinic, declared, monkeypatch, tmp_path):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    options = {"mechanism": rb.Moments(1.0), "bounds": declared, "n_rados": 5}
    flat.craft(clinic, **options, **({"counts": None} if quiet else {}))
    assert ("rows contribute" in terminal.getvalue()) == (not quiet)


def test_a_wrong_declaration_stops_before_most_is_spent(rado, clinic, declared, tmp_path):
    """By noisy counts of deviation 42: 3,000 spoiled rows, or 3,000 good ones, are 70 of them; wrong below 1e-9."""
    lines = clinic.read_text().splitlines()
    table = tmp_path / "wards.csv"
    table.write_text("\n".join([f"ward,{lines[0]}", *(f"north,{line}" for line in lines[1:] * 50)]) + "\n")
    text = json.dumps(json.loads(declared.read_text()))
    wrong = tmp_path / "wrong.json"
    assert '["no", "yes"]' in text
    wrong.write_text(text.replace('["no", "yes"]', '["No", "Yes"]'))
    code, out, err = rado("craft", table, "--epsilon", 1, "--schema", wrong, "-o", "r.parquet")
    assert (code, out) == (1, "") and "rows would contribute nothing" in err and err.count("\n") == 1
    assert not Path("r.parquet").exists()
    assert rado("craft", table, "--epsilon", 1, "--schema", declared, "-o", "r.parquet")[0] == 0


def test_releases_compose_and_seeds_void(rado, clinic, declared):
    common = ["craft", clinic, "--schema", declared, "-n", 20, "--epsilon", 1]
    assert rado(*common, "-o", "first.parquet")[0] == 0
    out = rado(*common, "-o", "second.parquet", "--compose", "first.parquet")[1]
    assert "With 1 earlier release that it names: epsilon 1.4" in " ".join(out.split())
    total = rb.load("second.parquet").statement.composed["epsilon"]
    assert 1.4 < total < 1.6
    seeded = ["--mechanism", "noisy-rados", "-o", "third.parquet", "--seed", 3, "--set", "i_know=yes"]
    out = rado(*common, *seeded)[1]
    assert "No promise" in out
    out = rado("show", "third.parquet")[1]
    assert "epsilon infinite" in out and "drawn from a seed" in out and "no privacy guarantee" in out


def test_fixed_support_on_the_command_line(rado, clinic, declared):
    options = [
        "--mechanism",
        "noisy-examples",
        "--set",
        "noise_std=0.1",
        "--signatures",
        "fixed:0.25",
        "--schema",
        declared,
    ]
    assert rado("craft", clinic, "-n", 30, *options)[0] == 0
    release = rb.load("clinic.rado.parquet")
    assert release.signatures == {"name": "fixed-support", "support": 15} and release.n_examples == 60


def test_account(rado):
    rados = ["--mechanism", "noisy-rados", "-n", 100]
    answer = json.loads(rado("account", *rados, "--set", "noise_std=18.75", "--delta", 1e-5, "--json")[1])
    assert answer["epsilon"] == pytest.approx(0.9998, abs=5e-4)
    assert answer["neighbours"] == "one record added or removed"
    back = json.loads(rado("account", *rados, "--epsilon", answer["epsilon"], "--delta", 1e-5, "--json")[1])
    assert back["noise"] == pytest.approx(18.75, rel=1e-4) and back["epsilon"] <= answer["epsilon"]
    band = rado("account", "--mechanism", "feature-band", "--epsilon", 0.1, "--rows", 1000, "-n", 1)[1]
    assert "delta 0.033143 at epsilon 0.1; without a band 0.0016" in band and "marginal" in band
    examples = rado("account", "--mechanism", "noisy-examples", "--epsilon", 1)[1]
    assert "8.44" in examples and "one edge vector replaced" in examples
    for bad in (["--epsilon", 0], [], ["--mechanism", "plain", "--epsilon", 1], ["--mechanism", "feature-band"]):
        code, out, err = rado("account", *bad)
        assert (code, out, err.count("\n")) == (1, "", 1)
    assert math.isfinite(json.loads(rado("account", "--epsilon", 1, "--json")[1])["noise"]["sum"])
    assert os.listdir(".") == []


def test_the_account_of_moments_is_the_noise_that_craft_takes(rado, clinic, declared):
    """In the units of the release, to every digit that is printed."""
    for unit in ("record", "label"):
        answer = json.loads(rado("account", "--epsilon", 2, "--set", f"unit={unit}", "--json")[1])
        options = ["--epsilon", 2, "--set", f"unit={unit}", "--schema", declared, "-o", f"{unit}.rado.parquet"]
        assert rado("craft", clinic, *options)[0] == 0
        release = rb.load(f"{unit}.rado.parquet")
        noise, rounds = dict(release.mechanism["noise"]), release.mechanism["rounds"]
        planned = {**answer["noise"], "rounds": answer["noise"]["rounds"][str(rounds)]}
        assert planned == pytest.approx(noise, rel=1e-9) and planned.keys() == noise.keys()
        assert answer["epsilon"] == pytest.approx(release.statement.epsilon, rel=1e-9)
        shown, said = (
            rado("show", f"{unit}.rado.parquet")[1],
            rado("account", "--epsilon", 2, "--set", f"unit={unit}")[1],
        )
        for text in (shown, said):
            words = " ".join(text.split())
            assert f"sum {noise['sum']:.6g}," in words
            assert f"each of {rounds} mean rados {noise['rounds']:.6g}" in words
            assert ("second moments exact" in words) == (unit == "label")
    for options in (["--set", "sharpen=no"], ["--schema", "private"], ["--schema", "private", "--set", "sharpen=no"]):
        answer = json.loads(rado("account", "--epsilon", 2, "--columns", 2, "--rows", 60, *options, "--json")[1])
        declaration = ["--label", "readmitted", "--classes", "no,yes"] if "private" in options else []
        craft = [*options, *declaration] if declaration else [*options, "--schema", declared]
        assert rado("craft", clinic, "--epsilon", 2, *craft, "-o", "a.rado.parquet", "--force")[0] == 0
        noise = dict(rb.load("a.rado.parquet").mechanism["noise"])
        rounds = answer["noise"]["rounds"]
        planned = {**answer["noise"], "rounds": rounds["8"] if isinstance(rounds, dict) else rounds}
        assert planned == pytest.approx(noise, rel=1e-9) and answer["expected"]["columns"] == 2
        words = " ".join(rado("account", "--epsilon", 2, "--columns", 2, "--rows", 60, *options)[1].split())
        assert ("each of 4 searches for bounds" in words) == ("private" in options)
        assert ("mean rados" in words) == ("sharpen=no" not in options)
    for options, message in (
        (["--schema", "private"], "give --columns"),
        (["--schema", declared, "--columns", 3], "leave options about them out"),
        (["--mechanism", "noisy-rados", "--set", "sharpen=no"], "noisy-rados has no setting 'sharpen'"),
        (["--mechanism", "noisy-examples", "--schema", "private"], "are for the mechanism moments"),
    ):
        code, out, err = rado("account", "--epsilon", 2, *options)
        assert (code, out, err.count("\n")) == (1, "", 1) and message in err
    code, out, err = rado("account", "--mechanism", "moments")
    assert (code, out, err.count("\n")) == (1, "", 1) and "give --epsilon" in err


GROUPS = {
    "moments": (["--epsilon", 1], [2.12, 5.93, 13.51]),
    "noisy-examples": (["--epsilon", 1], [1.45, 2.4, 3.52]),
    "noisy-rados": (["--epsilon", 1, "-n", 50], None),
    "feature-band": (["--epsilon", 1, "--rows", 1000, "-n", 20], None),
}


@pytest.mark.parametrize("mechanism", GROUPS)
def test_groups_in_every_account(mechanism, rado):
    options, expected = GROUPS[mechanism]
    answer = json.loads(rado("account", "--mechanism", mechanism, *options, "--json")[1])
    groups = answer["figures"]["groups"]
    assert [figure["size"] for figure in groups] == [2, 5, 10]
    epsilons = [figure["epsilon"] for figure in groups]
    assert answer["epsilon"] < epsilons[0] < epsilons[1] < epsilons[2]
    if expected:
        assert [round(epsilon, 2) for epsilon in epsilons] == expected
    (one,) = json.loads(rado("account", "--mechanism", mechanism, *options, "--group", 5, "--json")[1])["figures"][
        "groups"
    ]
    assert one == groups[1]
    words = " ".join(rado("account", "--mechanism", mechanism, *options, "--group", 5)[1].split())
    assert f"for {one['neighbours']}, at delta 1e-06" in words
    assert rado("account", "--mechanism", mechanism, *options, "--group", 0)[0] == 1


def test_show_has_the_figures_that_others_ask_for(rado, clinic, declared):
    common = ["craft", clinic, "--schema", declared, "-n", 20, "--epsilon", 1, "--delta", 0.01]
    assert rado(*common, "-o", "a.rado.parquet")[0] == 0
    shown = rado("show", "a.rado.parquet")[1]
    assert "delta 0.01," in shown and "0.0100001" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    words = " ".join(shown.split())
    figures = json.loads(rado("show", "a.rado.parquet", "--json")[1])["figures"]
    assert figures["rho"] == pytest.approx(figures["mu"] ** 2 / 2) and figures["total_variation"] > 0
    event = rb.load("a.rado.parquet").statement.event
    parts = [(part.get("event", part)["noise_multiplier"], part.get("count", 1)) for part in event["events"]]
    assert figures["mu"] == pytest.approx(math.sqrt(sum(count / noise**2 for noise, count in parts)), rel=1e-9)
    assert "in Gaussian differential privacy" in words and "zCDP, for one record added or removed" in words
    assert "for 2, 5, 10 records, all added or all removed, at delta 0.01" in words
    assert rado("learn", "a.rado.parquet")[0] == 0
    assert json.loads(rado("show", "a.model.json", "--json")[1])["figures"] == figures
    assert rado("craft", clinic, "--label", "readmitted", "-n", 5, "-o", "plain.rado.parquet")[0] == 0
    assert "figures" not in json.loads(rado("show", "plain.rado.parquet", "--json")[1])


def test_events_for_other_accountants(rado, clinic, declared):
    """The exported event, in the other library's own hands, costs what the statement says."""
    from dp_accounting.pld import PLDAccountant

    for mechanism, options in (
        ("moments", []), ("noisy-rados", ["-n", 20]), ("noisy-examples", []), ("moments", ["--set", "unit=label"]),
    ):  # fmt: skip
        common = ["craft", clinic, "--schema", declared, "--epsilon", 1, "--mechanism", mechanism, *options]
        assert rado(*common, "-o", "e.rado.parquet", "--force")[0] == 0
        statement = rb.load("e.rado.parquet").statement
        assert json.loads(rado("show", "e.rado.parquet", "--event", "json")[1]) == statement.event
        code, out, _ = rado("show", "e.rado.parquet", "--event", "dp-accounting")
        assert code == 0 and statement.neighbours in out
        names: dict = {}
        exec(out, names)
        accountant = PLDAccountant(value_discretization_interval=1e-3).compose(names["event"])
        assert accountant.get_epsilon(statement.delta) == pytest.approx(statement.epsilon, rel=2e-3)
    assert rado("show", "e.rado.parquet", "--event", "xml")[0] == 1


def test_a_release_that_spent_something_is_not_overwritten(rado, clinic, declared):
    common = ["craft", clinic, "--schema", declared, "-n", 20]
    for _ in range(2):
        assert rado(*common)[0] == 0  # a plain one can be made again
    assert rado(*common, "--epsilon", 1)[0] == 0
    before = Path("clinic.rado.parquet").read_bytes()
    code, out, err = rado(*common, "--epsilon", 1)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "clinic.rado.parquet is a release that spent epsilon 1 (one record" in err and "--force" in err
    assert Path("clinic.rado.parquet").read_bytes() == before
    assert rado(*common, "--epsilon", 1, "--force")[0] == 0
    assert Path("clinic.rado.parquet").read_bytes() != before


def test_advice_where_delta_is_large_for_so_many_rows(rado, clinic, declared):
    common = ["craft", clinic, "--schema", declared, "--epsilon", 1, "--set", "rows=600000", "-o", "a.rado.parquet"]
    code, out, err = rado(*common)
    assert code == 0 and "delta 1e-06 is not well below 1 / rows" in err and "take at most 1e-07" in err
    assert "advice" not in out, "the number of rows is protected, and what was declared stays with the holder"
    (plan,) = rado(*common, "--delta", 1e-7, "--force")[2].splitlines()  # there is nothing but what they carry
    assert plan.startswith("rado: about 600,000 rows at epsilon 1, for one record added or removed, carry ")
    examples = ["--mechanism", "noisy-examples", "--epsilon", 1, "--delta", 1e-2]
    shown = rado("craft", clinic, "--schema", declared, *examples, "-o", "b.rado.parquet")[1]
    assert "advice       delta 0.01 is not well below 1 / rows" in shown and "of 60 rows" in " ".join(shown.split())
    assert "advice" in rado("account", "--mechanism", "noisy-rados", "--epsilon", 1, "--rows", 600_000, "-n", 9)[1]
    assert "advice" not in rado("account", "--mechanism", "noisy-rados", "--epsilon", 1, "--rows", 60_000, "-n", 9)[1]
