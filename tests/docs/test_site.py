"""The documentation site builds strictly, its links lead somewhere, and it loads nothing from another host."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tapecheck.check import check
from tapecheck.rules import ALL, Rule
from tapecheck.source import from_text
from tapecheck.source.schema import ADDRESS
from tests.docs.pages import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOME = "https://tapecheck.readthedocs.io/en/latest/"
SOURCES = [
    *("package.json", "pyproject.toml", "README.md", "mkdocs.yml"),
    *("server/**/*.py", "client/src/*.ts", "docs/**/*.md", "docs/*.json"),
]
"""Where addresses of the site are named."""

pytestmark = pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed: pip install '.[docs]'")


class Page(HTMLParser):
    """What a page of the site refers to, by kind of element, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.paragraphs: list[str] = []
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe", "source", "object", "embed", "video", "audio"):
            self.loaded += [given[key] for key in ("src", "data", "srcset") if given.get(key)]
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next", "edit"):
            self.loaded.append(given["href"])
        if tag == "p":
            self._open = True
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.paragraphs[-1] += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as it is built for readers, without the playground's program, which has a test of its own."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    return folder


@cache
def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def pages(site: Path) -> Iterator[tuple[str, Page]]:
    """The pages with their addresses from the site's root."""
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":
            yield path.relative_to(site).as_posix().removesuffix("index.html"), read(path)


def problem(site: Path, address: str) -> str | None:
    """What is wrong with an address from the site's root, None where it leads to a page and an anchor of it."""
    parts = urlsplit(address)
    place = site / unquote(parts.path)
    if parts.path == "" or parts.path.endswith("/"):
        place /= "index.html"
    if not place.is_file():
        return f"{address}: no such page"
    if parts.fragment and place.suffix == ".html" and unquote(parts.fragment) not in read(place).anchors:
        return f"{address}: no such anchor"
    return None


def test_links_between_pages_resolve(site: Path) -> None:
    seen = 0
    wrong = []
    for address, page in pages(site):
        for link in page.links:
            if urlsplit(link).scheme:
                continue
            seen += 1
            target = posixpath.join(address, link) if not link.startswith("#") else address + link
            parts = urlsplit(target)
            path = posixpath.normpath(parts.path) if parts.path else ""
            path = "" if path == "." else path + ("/" if parts.path.endswith(("/", "/.", "/..")) else "")
            if found := problem(site, path + (f"#{parts.fragment}" if parts.fragment else "")):
                wrong.append(f"{address}: {found}")
    assert seen > 1_000
    assert wrong == []


def test_the_pictures_of_the_extension_are_there(site: Path) -> None:
    """Its page is shown where no file of the package can be."""
    page = (ROOT / "client" / "README.md").read_text(encoding="utf-8")
    images = re.findall(r"\]\(images/([\w-]+\.png)\)", page)
    assert images and page.count("![") == len(images)
    for image in images:
        packed = site / "assets" / "vscode" / image
        assert packed.read_bytes() == (ROOT / "client" / "images" / image).read_bytes()


LOOK = """<script>addEventListener("load", () => {
  const image = document.querySelector(".md-content img"), { filter } = getComputedStyle(image);
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const words = image.getBoundingClientRect().width / image.naturalWidth;
  document.body.dataset.seen = [document.body.dataset.mdColorScheme, filter === "none", wide, words >= 0.85].join();
});</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("page", ["index.html", "life-of-a-graph/index.html"])
@pytest.mark.parametrize(("colours", "expected"), [(1, "default,true,0,true"), (0, "slate,false,0,true")])
def test_pictures_can_be_read_in_dark_colours_and_on_a_telephone(
    site: Path, tmp_path: Path, page: str, colours: int, expected: str
) -> None:
    file = site / page.replace("index.html", f"seen{colours}.html")
    file.write_text((site / page).read_text(encoding="utf-8").replace("</body>", LOOK), encoding="utf-8")
    done = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--window-size=420,900"),
            *(f"--blink-settings=preferredColorScheme={colours}", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--virtual-time-budget=5000", file.as_uri()),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    file.unlink()
    seen = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert seen is not None, done.stderr[-2000:]
    assert seen[1] == expected


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_the_link_of_every_finding_resolves(site: Path, rule: Rule) -> None:
    found = check(from_text(rule.page.invalid[0].program, "example.py"), select=[rule.code]).findings
    assert found
    for finding in found:
        assert finding.url.startswith(HOME)
        address = finding.url.removeprefix(HOME)
        assert problem(site, address) is None
        assert f"{rule.name} ({rule.code})" in (site / address / "index.html").read_text(encoding="utf-8")


def test_every_address_that_is_named_anywhere_resolves(site: Path) -> None:
    named = {
        address.rstrip(".,")
        for pattern in SOURCES
        for path in ROOT.glob(pattern)
        for address in re.findall(re.escape(HOME) + r"[\w./#-]*", path.read_text(encoding="utf-8"))
    }
    assert {ADDRESS, f"{HOME}changelog/", f"{HOME}usage/#switching-rules-off"} <= named
    assert [found for address in sorted(named) if (found := problem(site, address.removeprefix(HOME)))] == []


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for address, page in pages(site):
        assert page.loaded, address
        assert [what for what in page.loaded if urlsplit(what).netloc] == [], address
    for sheet in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import\s)[\"']?(?:https?:)?//[^\"')]*", sheet.read_text(encoding="utf-8"))
        assert found == [], sheet


def test_lists_and_tables_are_rendered(site: Path) -> None:
    """Markdown on the site wants an empty line before a list, GitHub's does not."""
    for address, page in pages(site):
        assert [text for text in page.paragraphs if re.search(r"^(- |\d+\. |\|)", text, re.MULTILINE)] == [], address
