"""How many options the commands of rado have, as they are built: python tests/house/cli_options.py."""

import json

import typer

from radoboost.cli import app


def options():
    """The number of options of every command that help shows, by its words."""
    waiting, counts = [("rado", typer.main.get_command(app))], {}
    while waiting:
        path, command = waiting.pop()
        if children := getattr(command, "commands", {}):
            waiting += [(f"{path} {name}", child) for name, child in children.items()]
        elif not command.hidden:
            counts[path] = sum(one.param_type_name == "option" and one.name != "help" for one in command.params)
    return counts


def figures():
    """What limits are about."""
    counts = options()
    return {"options_of_craft": counts["rado craft"], "options": sum(counts.values()), "commands": len(counts)}


if __name__ == "__main__":
    print(json.dumps({**dict(sorted(options().items())), **figures()}, indent=1))
