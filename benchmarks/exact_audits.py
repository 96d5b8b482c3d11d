"""Exact audits by replay, of every mechanism that promises something: the worst pair of each cell and stage.

    python benchmarks/exact_audits.py                    the whole grid, some minutes of one core
    python benchmarks/exact_audits.py --only persons     cells with this in their name; other results stay
    python benchmarks/exact_audits.py --missing          cells that have no result yet

Writes experiments/results/exact_audits.json and .md. Exits with 1 where a pair is further apart than is promised, or a
check in integers fails.
"""

import argparse
import json
import time

from threadpoolctl import threadpool_limits

import radoboost as rb
from measuring import RESULTS, keep, shortfalls
from radoboost.holder.feature_maps import DEGREES
from radoboost.lab.audits.audit import audit
from radoboost.lab.audits.exact_audit import ABOUT_EXACT, audit_score_exactly

RELATIONS = {"record": {}, "label": {"unit": "label"}, "replaced": {"relation": "replace"}}


def cells():
    """Name, and what makes the audit."""
    for what, fields in RELATIONS.items():
        mechanism = rb.Moments(1.0, **fields)
        for columns in ("linear", *DEGREES, "auto"):
            yield f"moments, {what}, {columns}", mechanism, {"columns": columns}
        for n_classes in (3, 4, 5):
            yield f"moments, {what}, {n_classes} classes", mechanism, {"columns": "linear", "n_classes": n_classes}
        yield f"moments, {what}, 3 classes, degree-3", mechanism, {"columns": "degree-3", "n_classes": 3}
        yield f"moments, {what}, private bounds", mechanism, {"columns": "linear", "private_bounds": True}
        yield f"moments, {what}, private bounds, degree-3", mechanism, {"columns": "degree-3", "private_bounds": True}
        yield f"moments, {what}, schema with gaps and categories", mechanism, {"columns": "linear", "raw": True}
        yield f"moments, {what}, schema, degree-2", mechanism, {"columns": "degree-2", "raw": True}
        yield f"moments, {what}, room of 5, 2 lost or colluding", mechanism, {"columns": "linear", "room": (5, 2)}
        unsharpened = rb.Moments(1.0, sharpen=False, **fields)
        yield f"moments, {what}, not sharpened", unsharpened, {"columns": "linear"}
        for epsilon in (0.1, 8.0):
            yield f"moments, {what}, epsilon {epsilon:g}", rb.Moments(epsilon, **fields), {"columns": "linear"}
        if what != "replaced":
            for k in (1, 3):
                yield f"moments, {what}, persons with {k} rows", mechanism, {"columns": "linear", "max_rows": k}
            yield f"moments, {what}, persons, 3 classes, degree-3", mechanism, {
                "columns": "degree-3", "max_rows": 3, "n_classes": 3,
            }  # fmt: skip
    for name, options in {"": {}, ", schema": {"raw": True}, ", persons with 3 rows": {"max_rows": 3}}.items():
        yield f"noisy-rados{name}", rb.NoisyRados(1.0), options
    yield "noisy-examples, rows", rb.NoisyExamples(1.0), {}
    yield "noisy-examples, rows, schema", rb.NoisyExamples(1.0), {"raw": True}
    yield "noisy-examples, rows, persons with 3 rows", rb.NoisyExamples(1.0), {"max_rows": 3}
    yield "feature-band, one rado", rb.FeatureBand("x", 1.0, delta=1e-5), {}
    yield "score", None, {}
    yield "score, 3 classes", None, {"n_classes": 3}


def page(results):
    """The results as a page."""
    lines = [
        "# Exact audits",
        "",
        f"Written by `benchmarks/exact_audits.py`: {ABOUT_EXACT}.",
        "Each cell was replayed on made-up pairs of neighbouring tables ([what that proves](../../docs/attacks.md)).",
        "A ratio is the distance of the worst pair, in units of what the statement's epsilon and delta allow. The",
        "ratio of a stage is in units of its own share. Above 1 the program or its proof would be wrong. Ratios are",
        "rounded down.",
        "",
        f"Largest of {len(results)} cells: **{floored(max(one['ratio'] for one in results))}**.",
        "",
        "| cell | ratio | pairs x transcripts | worst pair | transcript |",
        "|---|---:|---:|---|---|",
    ]
    for one in results:
        count = f"{one['pairs']:,} x {one['transcripts']:,}"
        lines.append(f"| {one['what']} | {floored(one['ratio'])} | {count} | {one['pair']} | {one['transcript']} |")
    lines += ["", "## Stages", "", "| cell | stage | ratio | worst pair | transcript |", "|---|---|---:|---|---|"]
    for one in results:
        for stage in one["stages"]:
            numbers = f"{stage['stage']} | {floored(stage['ratio'])} | {stage['pair']} | {stage['transcript']}"
            lines.append(f"| {one['what']} | {numbers} |")
    remarks = dict.fromkeys(f"- {one['what']}: {one['remark']}." for one in results if one["remark"])
    return "\n".join([*lines, "", "## Remarks", "", *remarks, ""])


def floored(ratio):
    return f"{int(ratio * 1e5) / 1e5:.5f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--missing", action="store_true")
    options = parser.parse_args()
    place, begun, done = RESULTS / "exact_audits.json", time.perf_counter(), []
    before = json.loads(place.read_text())["results"] if place.exists() else []
    kept = {one["what"]: one for one in before}
    with threadpool_limits(limits=1):
        for name, mechanism, about in cells():
            if options.only not in name or (options.missing and name in kept):
                continue
            started = time.perf_counter()
            found = audit_score_exactly(1.0, **about) if mechanism is None else audit(mechanism, exact=True, **about)
            kept[name] = {"what": name, "seconds": round(time.perf_counter() - started, 1), **found.to_dict()}
            done.append(kept[name])
            results = [kept[what] for what, *_ in cells() if what in kept]
            keep("exact_audits", results)
            (RESULTS / "exact_audits.md").write_text(page(results))
            print(f"{name:<58}{floored(found.ratio):>9}{time.perf_counter() - begun:>8.0f} s", flush=True)
    shortfalls([f"{one['what']}: {one['ratio']}, {one['faults'][:2]}" for one in done if not one["holds"]])


if __name__ == "__main__":
    main()
