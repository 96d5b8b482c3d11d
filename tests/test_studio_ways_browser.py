"""A way in Chromium that begins at a raw CSV file and ends with a model that was taken elsewhere."""

import re
import runpy

import pyarrow.csv
import pytest

from studio_browser import follow, press, visiting
from test_studio_holder import patients
from test_studio_holder_browser import choose, craft, write


@pytest.fixture
def clinic(browser, tmp_path):
    """A visit to a folder with a raw table, and nothing else."""
    folder = tmp_path / "clinic"
    folder.mkdir()
    pyarrow.csv.write_csv(patients(), folder / "patients.csv")
    with visiting(browser, folder) as opened:
        opened.expected.append("htmx:(afterRequest|sendAbort)")  # a form was sent while another answer was awaited
        opened.folder = folder
        yield opened


@pytest.mark.slow
def test_from_a_raw_file_to_a_model_elsewhere(clinic):
    page = choose(clinic)
    page.get_by_label("The column that others may learn to predict").select_option("ill")
    page.wait_for_selector("#problems >> text=A plain release can be crafted with this")
    write(page)
    page.get_by_label("Plain: exact rados").check()
    page.wait_for_selector("#prospect >> text=Nothing: whoever has a plain release")
    craft(page)
    press(page, "Learn from it: patients.rado.parquet")
    page.get_by_role("button", name="Learn", exact=True).click()
    page.wait_for_url(re.compile(r"/model$"))
    follow(page, "One row")
    for label, value in (("age", "70"), ("dose", "9")):
        page.get_by_label(label).fill(value)
    page.get_by_label("ward").select_option("B")
    page.get_by_role("button", name="How probable is it?").click()
    page.wait_for_selector("#answer >> text=70,B,9")
    chance = page.get_by_role("row", name=re.compile("^yes")).get_by_role("cell").first.inner_text()
    follow(page, "A table")
    page.get_by_label("Table", exact=True).select_option(clinic.studio.file_id("patients.csv"))
    page.get_by_label("Column of true classes").fill("ill")
    page.get_by_role("button", name="Score it").click()
    page.get_by_text("that have a known label are wrong").wait_for()
    scores = pyarrow.csv.read_csv(clinic.folder / "patients.scores.csv")
    assert scores.num_rows == patients().num_rows
    follow(page, "Elsewhere")
    page.get_by_role("button", name="Write it", exact=True).click()
    page.get_by_text("Wrote patients.py").wait_for()
    program = runpy.run_path(str(clinic.folder / "patients.py"))
    says = program["probabilities"]({"age": "70", "ward": "B", "dose": "9"})["yes"]
    assert f"{says:.4f}" == chance  # of the page with one row
