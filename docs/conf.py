"""The documentation site, which `make docs` builds with Sphinx.

SITE_URL and REPOSITORY_URL, if they are set, give the site a sitemap and links to the sources.
"""

import ast
import inspect
import itertools
import os
import re
from pathlib import Path

import arraybridge

ROOT = Path(__file__).resolve().parents[1]
SITE, REPOSITORY = os.environ.get("SITE_URL", ""), os.environ.get("REPOSITORY_URL", "")

project = "arraybridge"
version = release = arraybridge.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_llms_txt",
    "sphinxext.opengraph",
]
default_role = "code"
add_module_names = False
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
napoleon_use_param = napoleon_use_rtype = False
myst_heading_anchors = 4
myst_links_external_new_tab = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
ogp_site_url = SITE
ogp_social_cards = {"enable": False}
ogp_enable_meta_description = True
llms_txt_summary = "Converts arrays between NumPy, CuPy, PyTorch, TensorFlow, JAX, pyclesperanto."

html_theme = "pydata_sphinx_theme"
html_favicon = "favicon.svg"
html_title = "arraybridge"
html_baseurl = SITE
# These have no pages below them.
html_sidebars = {"gallery": [], "questions": []}
html_theme_options = {
    "show_nav_level": 1,
    "secondary_sidebar_items": ["page-toc", *["edit-this-page"] * bool(REPOSITORY)],
    "use_edit_page_button": bool(REPOSITORY),
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
if SITE:
    extensions.append("sphinx_sitemap")
    sitemap_url_scheme = "{link}"
if REPOSITORY:
    html_theme_options["icon_links"] = [
        {"name": "Repository", "url": REPOSITORY, "icon": "fa-solid fa-code-branch"}
    ]
    html_context["edit_page_url_template"] = REPOSITORY + "/edit/main/docs/{{ file_name }}"

GALLERY = re.compile(r"^\[\w+\.py\]\((\.\./examples/gallery/\w+\.py)\)$", re.MULTILINE)


def constants(source):
    """The constants of a module or stub, by name, with the strings below them."""
    found = {}
    for node, below in itertools.pairwise(ast.parse(source).body):
        match node, below:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


def constant_docstring(name):
    """What is written below a constant of the package."""
    package = Path(arraybridge.__file__).parent
    sources = ((package / file).read_text() for file in ("dtype_scaling.py", "types.pyi"))
    return next((text for source in sources if (text := constants(source).get(name))), None)


def options():
    """The options of the decorators as Markdown, each with a heading."""
    text = inspect.getdoc(arraybridge.torch).split("Parameters\n----------\n")[1]
    parts = re.split(r"^(\w.*?) : (.*)\n", text.split("\n\nReturns\n")[0], flags=re.MULTILINE)
    for names, kind, about in zip(*[iter(parts[1:])] * 3, strict=True):
        if names != "function":
            entries = ", ".join(f"! {name}" for name in names.split(", "))
            yield f"## {names}\n\n```{{index}} {entries}\n```\n\n*{kind}*\n"
            yield inspect.cleandoc(about) + "\n"


def complete_source(app, name, source):
    """Show the gallery's programs and the options. ARCHITECTURE.md is a page of the site."""
    text = GALLERY.sub(r"```{literalinclude} \1\n:language: python\n```", source[0])
    text = text.replace("](../ARCHITECTURE.md", "](architecture.md")
    source[0] = text.replace("<!-- options -->", "\n".join(options()))


def complete_docstring(app, what, name, value, settings, lines):
    """Autodoc finds no docstring of a constant in a stub, nor in another module."""
    if what == "data" and (text := constant_docstring(name.rpartition(".")[2])):
        lines[:] = text.splitlines()
    if name == "arraybridge.torch":  # Its options have a page of their own.
        del lines[lines.index("Parameters") : lines.index("Returns")]


def complete_page(app, name, template, context, doctree):
    """The empty corner of a table is no heading, which a screen reader would read out."""
    if "body" in context:
        context["body"] = context["body"].replace('<th class="head"><p></p></th>', "<td></td>")


def setup(app):
    app.connect("html-page-context", complete_page)
    app.connect("source-read", complete_source)
    # Before napoleon reads the sections of the docstring.
    app.connect("autodoc-process-docstring", complete_docstring, priority=100)
