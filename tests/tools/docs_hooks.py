"""Hooks of the documentation site: pages may link to files of the repository beside `docs`."""

import re
from pathlib import Path

GALLERY = re.compile(r"^\[\w+\.py\]\(\.\./(examples/gallery/\w+\.py)\)$", re.MULTILINE)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#]+)(?:#[^)]*)?\)")
CODE = re.compile(r"(<pre.*?</pre>)|<code>(.*?)</code>", re.DOTALL)
LONG = re.compile(r"[\w:./]{40,}")
OPTION = re.compile(r"(?<![^\s\[(|])--?[a-z][\w-]*")


def code(link):
    """A file of the gallery, without its docstring, which the page has above the link."""
    text = Path(link[1]).read_text().split('"""', 2)[2].strip()
    return f"`{link[1]}`\n\n```python\n{text}\n```"


def on_page_markdown(markdown, page, **_):
    """Such a link becomes the file's path, since the site does not have the file.

    The gallery shows its files instead. Examples in the reference do not say that tests skip them.
    """
    if page.file.src_uri == "reference.md":
        markdown = markdown.replace("  # doctest: +SKIP", "")
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


def on_post_page(output, **_):
    """Options of programs, such as `--json`, are not broken after their hyphens.

    The long names of tests are broken between words. What is searched has neither of these tags.
    """

    def kept(found):
        if found[1]:
            return found[1]
        text = OPTION.sub(lambda option: f'<span class="option">{option[0]}</span>', found[2])
        text = LONG.sub(lambda name: re.sub("(::|_)", r"\1<wbr>", name[0]), text)
        return f"<code>{text}</code>"

    return CODE.sub(kept, output)
