"""Check the pages that mkdocs has built: `make docs` runs this after it.

    python docs/check_site.py [SITE]

Every link leads to a file, and to a place in it. Every page can be reached from the first. Nothing that a page loads
lies on another machine. Search finds what people look for. The pages beside docs/, such as README.md, have their links
checked as well: those to pages go by the places that the built page has.
"""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
SOUGHT = ("categories", "one-hot", "encode as numbers", "gaps", "epsilon", "merge", "ledger", "studio", "install")
_LOADED = {"audio", "embed", "iframe", "img", "input", "link", "object", "script", "source", "track", "video"}
_NOT_LOADED = {"canonical", "next", "prev", "alternate"}  # kinds of <link> that a browser does not fetch


class Page(HTMLParser):
    """A page: places within it, where its links lead, and what it loads.

    >>> page = Page('<h2 id="b">B</h2><a href="a.html#c">c</a><img src="x.png"><link rel="prev" href="p.html">')
    >>> page.places, page.links, page.loads
    ({'b'}, ['a.html#c', 'p.html'], ['x.png'])
    """

    def __init__(self, text):
        super().__init__()
        self.places, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        kinds = set(given.get("rel", "").split())
        is_loaded = tag in _LOADED and not (kinds and kinds <= _NOT_LOADED)
        addresses = [given[name] for name in ("href", "src", "data", "poster") if name in given]
        addresses += [one.split()[0] for one in given.get("srcset", "").split(",") if one.strip()]
        (self.loads if is_loaded else self.links).extend(addresses)
        self.loads += _in_style(given.get("style", ""))


def _in_style(text):
    """What a style sheet loads.

    >>> _in_style('@import "a.css"; b {background: url(c.png)}')
    ['a.css', 'c.png']
    """
    return re.findall(r"""@import\s+["']([^"']+)""", text) + re.findall(r"""url\(["']?([^"')]+)""", text)


def is_elsewhere(address):
    """Whether an address is on another machine, or at the root of whatever serves it.

    >>> [is_elsewhere(address) for address in ("https://a.b/c", "//a.b/c", "/c", "c.html#d", "data:image/png;base64,")]
    [True, True, True, False, False]
    """
    parts = urlsplit(address)
    return bool(parts.netloc) or address.startswith("/") or parts.scheme not in ("", "data")


def pages_of(site):
    """The pages by their paths; the one that a server shows where there is none has links from the root."""
    return {
        path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html")) if path.name != "404.html"
    }


def _target(page, address):
    """The file that an address leads to from a page, and the place in it."""
    parts = urlsplit(address)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return (path / "index.html" if path.is_dir() else path), unquote(parts.fragment)


def broken_links(site, pages):
    """What does not lead anywhere, and pages that nothing leads to."""
    faults, reached, waiting = [], set(), [site / "index.html"]
    for path, page in pages.items():
        for address in [*page.links, *page.loads]:
            if urlsplit(address).scheme or urlsplit(address).netloc:
                continue
            file, place = _target(path, address)
            if not file.is_file():
                faults.append(f"{path.relative_to(site)}: {address} leads to no file")
            elif place and file in pages and place not in pages[file].places:
                faults.append(f"{path.relative_to(site)}: {address} leads to no place on that page")
    while waiting:
        path = waiting.pop()
        if path in pages and path not in reached:
            reached.add(path)
            waiting += [_target(path, address)[0] for address in pages[path].links]
    return faults + [f"{path.relative_to(site)}: no link leads to it" for path in pages if path not in reached]


def loads_from_elsewhere(site, pages):
    """What pages and style sheets would ask another machine for."""
    loads = {path: page.loads for path, page in pages.items()}
    loads |= {path: _in_style(path.read_text(encoding="utf-8")) for path in site.rglob("*.css")}
    return [
        f"{path.relative_to(site)}: loads {one}" for path, all_ in loads.items() for one in all_ if is_elsewhere(one)
    ]


def not_found(site, sought=SOUGHT):
    """What search does not find: no part of a page has all words of it."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    parts = [f"{entry['title']} {entry['text']}".lower() for entry in index["docs"]]
    missing = [one for one in sought if not any(all(word in part for word in one.split()) for part in parts)]
    return [f"search does not find {one!r}" for one in missing]


def broken_beside(root, site, pages):
    """Links of README.md and its like that lead nowhere."""
    faults = []
    for name in BESIDE:
        text = re.sub(r"^```.*?^```", "", (root / name).read_text(encoding="utf-8"), flags=re.M | re.S)
        for address in re.findall(r"\]\(([^)\s]+)\)", text):
            file, place = _target(root / name, address)
            if urlsplit(address).scheme or not urlsplit(address).path:
                continue
            if not file.exists():
                faults.append(f"{name}: {address} leads to no file")
            elif place:
                built = site / file.relative_to((root / "docs").resolve()).with_suffix(".html")
                if place not in pages[built].places:
                    faults.append(f"{name}: {address} leads to no place on that page")
    return faults


def faults_of(root, site):
    """All that is wrong with a site, a line each."""
    pages = pages_of(site)
    return [
        *broken_links(site, pages),
        *loads_from_elsewhere(site, pages),
        *not_found(site),
        *broken_beside(root, site, pages),
    ]


def main():
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    faults = faults_of(ROOT.resolve(), site)
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(pages_of(site))} pages, with links that lead somewhere: open {site / 'index.html'}")


if __name__ == "__main__":
    main()
