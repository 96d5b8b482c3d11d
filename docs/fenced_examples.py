"""For the reference page: examples in docstrings become fenced code, for Markdown takes `>>>` for a quotation."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """A docstring with its examples in fences; an example ends at an empty line.

    >>> fenced("One more.\\n\\n>>> 1 + 1\\n2\\n\\nIt adds.").splitlines()
    ['One more.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'It adds.']
    """
    return EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


class FencedExamples(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
