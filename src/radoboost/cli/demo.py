"""rado demo: the whole flow."""

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
        done = run_demo(directory, say, bar)
    if as_json:
        print(json.dumps(done.to_dict(), indent=2, ensure_ascii=False))
        return
    say(f"\n$ rado show {done.files['model']}")
    print_model(done.model, done.files["model"], False, str(done.files["model"]))
    say(f"\nLook at {done.files['picture']}, and at what was released with: rado show {done.files['release']}")
