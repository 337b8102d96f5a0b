"""Hooks of the documentation site: pages may link to files of the repository beside `docs`."""

import re
from pathlib import Path

GALLERY = re.compile(r"^\[\w+\.py\]\(\.\./(examples/gallery/\w+\.py)\)$", re.MULTILINE)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#]+)(?:#[^)]*)?\)")


def code(link):
    """A file of the gallery, without its docstring, which the page has above the link."""
    text = Path(link[1]).read_text().split('"""', 2)[2].strip()
    return f"`{link[1]}`\n\n```python\n{text}\n```"


def on_page_markdown(markdown, page, **_):
    """Such a link becomes the file's path, since the site does not have the file.

    The gallery shows its files instead.
    """
    if page.file.src_uri == "gallery.md":
        markdown = GALLERY.sub(code, markdown)
    depth = page.file.src_uri.count("/")

    def shown(link):
        text, target = link.groups()
        if not target.startswith("../" * (depth + 1)):
            return link.group()
        path = target.removeprefix("../" * (depth + 1))
        return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"

    return OUTSIDE.sub(shown, markdown)
