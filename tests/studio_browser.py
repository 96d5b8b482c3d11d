"""Chromium on the studio's pages: what it asked for, what it complained about, how pages look and what axe finds."""

import re
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from studio_pages import running

CHROMIUM = Path("/usr/bin/chromium")
SCREENSHOTS = Path(__file__).parent.parent / "build" / "screenshots"
LOOKS = [(1280, "light"), (400, "dark")]
_ALONE = [  # nothing but this machine can be reached, whatever the browser itself would like
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextmanager
def chromium():
    """A browser; tests are skipped, with a reason, where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=_ALONE)
        yield browser
        browser.close()


class Visit:
    """A browser that was let in, at the front page of a studio over a folder.

    `page` is Playwright's; `studio` the client that `studio_pages` has. In the end no request may have left the
    machine, and no page may have complained, but for complaints that match `expected`.
    """

    def __init__(self, browser, studio, **options):
        self.studio, self.base = studio, f"http://127.0.0.1:{studio.port}"
        self.requests, self.complaints, self.expected = [], [], []
        self.context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.context.set_default_timeout(120_000)  # the first craft of a process compiles, and others use this machine
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.context.on("console", self._hear)
        self.context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        self.context.on("dialog", self._refuse)
        self.page = self.context.new_page()

    def enter(self):
        """Come in; a studio that was told a file opens that at first."""
        self.page.goto(self.studio.studio.door.new_address())
        assert self.studio.studio.chosen is not None or self.page.url == f"{self.base}/"
        return self

    def _hear(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _refuse(self, dialog):
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def close(self):
        """End the visit, and check what it asked for and complained about."""
        self.context.close()
        away = [url for url in self.requests if urlsplit(url).hostname != "127.0.0.1" and not url.startswith("data:")]
        assert not away, f"requests left the machine: {away}"
        data = [url for url in self.requests if urlsplit(url).query and not re.search(r"/enter\?token=[\w-]+$", url)]
        assert not data, f"addresses say something: {data}"
        wrong = [line for line in self.complaints if not any(re.search(words, line) for words in self.expected)]
        assert not wrong, wrong

    def look(self, name):
        """Take pictures of the page, wide and light, narrow and dark; refuse what axe finds, and what is too wide."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for width, theme in LOOKS:
            self.page.set_viewport_size({"width": width, "height": 800})
            self.page.emulate_media(color_scheme=theme)
            self.page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{theme}.png", full_page=True)
            wide = self.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} wide on a screen of {width}"
            faults = self.axe()
            assert not faults, f"{name} at {width} in {theme}: {faults}"
        self.page.set_viewport_size({"width": 1280, "height": 800})
        self.page.emulate_media(color_scheme="light")

    @contextmanager
    def on_paper(self):
        """The page as it is printed, on which there is nothing to press."""
        self.page.emulate_media(media="print")
        for part in ("body > header", "body > footer", "button"):
            assert not self.page.locator(f"{part}:visible").count(), part
        yield self.page
        self.page.emulate_media(media="screen")

    def axe(self):
        """The faults that axe-core calls serious or critical."""
        self.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
        violations = self.page.evaluate("async () => (await axe.run()).violations")
        return [
            f"{fault['id']}: {fault['help']} at {[node['html'][:200] for node in fault['nodes']]}"
            for fault in violations
            if fault["impact"] in ("serious", "critical")
        ]


def follow(page, name):
    """Click on a link, and wait until its page is there with its script: what is typed before that asks for nothing."""
    link = page.get_by_role("link", name=name)
    address = link.evaluate("link => link.href")
    with page.expect_navigation(url=lambda url: url == address):  # a page with a job may load itself again meanwhile
        link.click()


def press(page, name, exact=False):
    """Click on a button that leads to another page, and wait until all of that is there, with its script."""
    with page.expect_navigation():
        page.get_by_role("button", name=name, exact=exact).click()


@contextmanager
def visiting(browser, folder, chosen=None, **options):
    """A visit to a new studio over a folder; `options` are those of a context of Playwright's."""
    with running(folder, chosen) as studio:
        visit = Visit(browser, studio, **options).enter()
        try:
            yield visit
        except BaseException:
            visit.context.close()
            raise
        visit.close()
