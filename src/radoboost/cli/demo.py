"""rado demo: the whole flow, on data that ships with scikit-learn."""

import json
from pathlib import Path
from typing import Annotated

import typer

from radoboost.cli.shell import JsonFlag, print_model, say


def demo(
    directory: Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="Where the files go.")] = Path(
        "rado-demo"
    ),
    as_json: JsonFlag = False,
) -> None:
    """Run the whole flow on scikit-learn's breast-cancer data.

    \b
    Examples:
      rado demo
      rado demo --directory /tmp/demo
    """
    from radoboost.demo import run_demo
    from radoboost.progress import show_progress

    with show_progress("steps") as bar:
        result = run_demo(directory, say, bar)
    if as_json:
        print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    say(f"\n$ rado show {result.files['model']}")
    print_model(result.model, result.files["model"], False, str(result.files["model"]))
    say(f"\nLook at {result.files['picture']}, and at what was released with: rado show {result.files['release']}")
