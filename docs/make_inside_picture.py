"""Draw docs/images/look-inside.svg, the learning curve of the demo's release: run `rado demo` first, then this."""

import sys
from pathlib import Path

import radoboost as rb
from radoboost.report.model_report import learning_curve_findings
from radoboost.report.plots import draw_figure

PLACE = Path(__file__).parent / "images" / "look-inside.svg"


def main() -> None:
    """Draw the curve of the release in the demo's folder."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "rado-demo")
    release, test = folder / "breast-cancer.rado.parquet", folder / "breast-cancer-test.csv"
    curve = rb.learning_curve(release, table=test, label="tumour")
    PLACE.write_bytes(draw_figure(learning_curve_findings(curve, None).figures[0]).wide_svg)


if __name__ == "__main__":
    main()
