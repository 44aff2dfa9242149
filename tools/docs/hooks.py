"""Hooks of `mkdocs build`: the pages that lie outside docs/, and links to files that the site does not have.

The pages are written to be read on GitHub, too: there a link leads to a file of the repository. On the site a link
to a file without a page becomes its path.
"""

from __future__ import annotations

import json
import logging
import os
import posixpath
import re
import sys
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# mkdocs loads this file by its path: the repository need not be on Python's.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.docs import playground

ROOT = Path(__file__).parents[2]
PAGES = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "assets/icon.svg": "client/images/icon.svg",
    # The page of the extension has its pictures from here.
    **{f"assets/vscode/{path.name}": f"client/images/{path.name}" for path in (ROOT / "client/images").glob("*.png")},
}
"""Files of the repository that have a place on the site, by that place."""
README = "index.md"
"""Where links to the README lead: the site's first page says the same."""

PLAYGROUND = ROOT / ".build" / "playground"
"""What `npm run playground` has built."""

log = logging.getLogger("mkdocs.hooks")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(```.*?```|`[^`\n]+`(?!\]))", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of a folder where the navigation names the folder: a new rule needs no line in mkdocs.yml."""
    for entry in config.nav or []:
        for title, target in entry.items():
            if isinstance(target, str) and target.endswith("/"):
                names = sorted(path.name for path in (ROOT / "docs" / target).glob("*.md"))
                names.sort(key=lambda name: name != "index.md")
                entry[title] = [f"{target}{name}" for name in names]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside docs/, and what the playground loads."""
    for place, path in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    if not PLAYGROUND.is_dir():
        # The rest of the site needs no Node.js.
        log.info("no playground: run `npm run playground` first")
        return files
    for built in sorted(PLAYGROUND.rglob("*")):
        if built.is_file():
            place = f"playground/{built.relative_to(PLAYGROUND).as_posix()}"
            files.append(File.generated(config, place, abs_src_path=str(built)))
    for name, content in (("sources", playground.sources()), ("examples", playground.examples())):
        files.append(File.generated(config, f"playground/{name}.json", content=json.dumps(content)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to files of the repository; raises PluginError for one that leads nowhere."""
    place = page.file.src_uri
    source = PAGES.get(place, f"docs/{place}")

    def rewritten(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (ROOT / path).exists():
            raise PluginError(f"{source} links to {target}, which is not there")
        there = _place_of(path)
        if there is None or files.get_file_from_path(there) is None:
            # The path says more on a page than a link that only works in a clone.
            return f"{text} (`{path}`)" if text.strip("`") != path else f"`{path}`"
        return f"[{text}]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{anchor})"

    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(rewritten, part) for part in parts[::2]]
    return "".join(parts)


def _place_of(path: str) -> str | None:
    """Return where a file of the repository stands on the site, None where it does not."""
    if path == "README.md":
        return README
    for place, original in PAGES.items():
        if path == original:
            return place
    inside = PurePosixPath(path)
    return os.fspath(inside.relative_to("docs")) if inside.parts[:1] == ("docs",) else None
