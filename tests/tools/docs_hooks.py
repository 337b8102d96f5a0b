"""Hooks of the documentation site: pages may link to files of the repository beside `docs`."""

import re

OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown, page, **_):
    """Such a link becomes the file's path, since the site does not have the file."""
    depth = page.file.src_uri.count("/")

    def shown(link):
        text, target = link.groups()
        if not target.startswith("../" * (depth + 1)):
            return link.group()
        path = target.removeprefix("../" * (depth + 1))
        return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"

    return OUTSIDE.sub(shown, markdown)
