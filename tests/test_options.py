"""Options that messages and pages name are options that there are, and commands that pages show can be typed."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer

from house.cli_options import figures
from radoboost.cli import app, options
from radoboost.errors import ArgumentError

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted((ROOT / "src" / "radoboost").rglob("*.py"))
OF_OTHERS = {  # programs that pages and messages speak of
    "--wheel", "--strict", "--write", "--show", "--name", "--memory-limit", "--std", "--fmad", "--tls-ca-file",
    "--tls-cert", "--tls-key", "--protocol", "--again", "--methods", "--update", "--variants", "--releases",
}  # fmt: skip


def commands():
    """Every command by its words."""
    waiting, found = [((), typer.main.get_command(app))], {}
    while waiting:
        words, command = waiting.pop()
        found[words] = command
        waiting += [((*words, name), child) for name, child in getattr(command, "commands", {}).items()]
    return found


COMMANDS = commands()


def known_options():
    names = {
        name for command in COMMANDS.values() for one in command.params for name in (*one.opts, *one.secondary_opts)
    }
    return {name for name in names if name.startswith("--")} | {"--help"}


def options_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def strings_of(module):
    return [node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant)]


def test_messages_and_pages_name_options_that_there_are():
    known, unknown = known_options() | OF_OTHERS, {}
    for module in MODULES:
        told = options_in("\n".join(text for text in strings_of(module) if isinstance(text, str)))
        unknown |= {module.name: told - known} if told - known else {}
    for page in PAGES:
        unknown |= {page.name: options_in(page.read_text()) - known} if options_in(page.read_text()) - known else {}
    assert unknown == {}
    assert options_in("leave it out (--max-rows K), or --set gaps=drop") - known == {"--max-rows"}


def lines_of(text):
    """Commands of rado in a text, whole."""
    for line in text.replace("\\\n", " ").splitlines():
        if match := re.match(r"\s*(?:[a-z-]*\$ +)?(rado [a-z].*)", line):
            yield re.split(r" +(?:#|\||>|&&) ?|  +|`", match[1])[0]


def cannot_be_typed(line):
    """Why a command is refused before it does anything; None if it is not."""
    if re.search(r"\.\.\.|[\[\]]|…", line):
        return None  # it is shortened
    words = shlex.split(line)[1:]
    path = ()
    while words and (*path, words[0]) in COMMANDS:
        path, words = (*path, words[0]), words[1:]
    if not path or hasattr(COMMANDS[path], "commands"):
        return f"{line!r} is no command"
    try:
        with COMMANDS[path].make_context("rado", words) as context:
            settings = context.params.get("settings") or ()
            assert all("=" in word or word == "help" for word in settings), settings
    except Exception as error:
        return f"{line!r}: {error}"
    return None


def test_commands_of_pages_and_help_can_be_typed():
    texts = [page.read_text() for page in PAGES] + [
        (command.help or "").partition("Examples:")[2] for command in COMMANDS.values()
    ]
    fenced = [block for text in texts[: len(PAGES)] for block in re.findall(r"```\w*\n(.*?)```", text, re.S)]
    lines = {line for text in (*fenced, *texts[len(PAGES) :]) for line in lines_of(text)}
    assert len(lines) > 100
    assert [why for why in map(cannot_be_typed, sorted(lines)) if why] == []
    for planted in ("rado craft t.csv --query x", "rado export --to onnx", "rado shear t.csv", "rado craft --label y"):
        assert cannot_be_typed(planted)


def test_help_is_short_and_whole(rado):
    counts = figures()
    assert counts["options_of_craft"] <= 24 and counts["options"] <= 215
    out = rado("craft", "--help")[1]
    assert len(out.splitlines()) <= 90
    places = [out.index(f"\n{title}:\n") for title in ("What the table is", "What is released", "How")]
    assert places == sorted(places) and out.count("    rado craft ") == 4
    commands = rado("--help")[1]
    assert "..." not in commands.split("Hold a table:")[1]
    assert [commands.index(f"{title}:\n") for title in options.GROUPS] == sorted(
        commands.index(f"{title}:\n") for title in options.GROUPS
    )


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a=3", 3), ("a=none", None), ("b=yes", True), ("b=no", False), ("c=1e-3", 0.001), ("c=inf", float("inf")),
        ("d=x, y", ("x", "y")), ("d=", ()), ("d=none", None), ("e=half", "half"), ("e=0.5", 0.5), ("f=a=b", "a=b"),
    ],
)  # fmt: skip
def test_a_setting_has_the_type_of_its_field(word, value):
    def taking(
        a: int | None = 1, b: bool = True, c: float = 0.0, d: tuple[str, ...] | None = None, e: float | str = 1.0,
        f: str = "",
    ): ...  # fmt: skip

    known = options.parameters_of(taking)
    assert options.chosen_settings([word], known, "it") == {word[0]: value}
    for wrong, why in (
        ("a=1.5", "whole number or none"),
        ("b=1", "yes or no"),
        ("g=1", "its settings are: a, b"),
        ("a", "NAME=VALUE"),
    ):
        with pytest.raises(ArgumentError, match=why):
            options.chosen_settings([wrong], known, "it")


def test_settings_are_listed_and_completed(rado):
    code, out, _ = rado("craft", "t.csv", "--epsilon", 1, "--set", "help")
    assert code == 0 and "  relation        a word (add)\n" in out and "  unlabelled      a word (error)\n" in out
    context = type("Context", (), {"params": {"epsilon": 1.0}})
    assert options.complete_setting(context, "sh") == ["sharpen=", "shared="]
    assert options.complete_setting(type("Context", (), {"params": {"mechanism": "plain"}}), "sc") == ["scale="]
