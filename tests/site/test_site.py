"""The documentation site as its readers find it. Run by `make site`; most of it needs Chromium."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import arraybridge
import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
SITE, REPOSITORY = "https://docs.example/", "https://code.example/arraybridge"
# What the first result of the search has to be, after `questions.html` where it is an anchor.
QUESTIONS = {
    "stop the copy": "#how-do-i-stop-the-copy", "why rounded": "#why-is-my-result-rounded",
    "which GPU": "#which-gpu-is-used", "read the trace": "#how-do-i-read-the-trace",
    "Dask": "#does-it-work-with-dask", "is it shared": "#is-the-memory-shared",
    "napari": "#how-do-i-use-it-with-napari", "cite": "citing.html",
    "add my framework": "#how-do-i-add-my-framework", "thread safe": "#is-it-thread-safe",
    "faq": "questions.html", "changelog": "changelog.html", "tifffile": "how-to/files.html",
    "memmap": "how-to/files.html", "scikit-learn": "how-to/training.html",
    "convert()": "reference/convert.html#arraybridge.convert", "halo": "reference/options.html",
    "UnsupportedDtypeError": "reference/errors.html#arraybridge.UnsupportedDtypeError",
}  # fmt: skip


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, built for an address. A warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", ROOT / "docs", folder]
    environment = {**os.environ, "SITE_URL": SITE, "REPOSITORY_URL": REPOSITORY}
    subprocess.run(command, check=True, env=environment, timeout=300)
    return folder


@pytest.fixture(scope="session")
def address(site):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="session")
def browser():
    if BROWSER is None:
        pytest.skip("Chromium is not installed")
    with pytest.importorskip("playwright.sync_api").sync_playwright() as playwright:
        # Chromium has no sandbox for root.
        arguments = ["--no-sandbox", "--disable-gpu"]
        yield playwright.chromium.launch(executable_path=BROWSER, args=arguments)


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["desk", "phone"])
def page(request, browser):
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


def names(site):
    """The pages that are made of a source, and their HTML."""
    sources = sorted((ROOT / "docs").rglob("*.md"))
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in sources]
    return {path.as_posix(): (site / path).read_text() for path in pages}


def test_other_projects_engines_and_models_find_every_page_and_name(site):
    pages, sitemap = names(site), (site / "sitemap.xml").read_text()
    models = (site / "llms.txt").read_text()
    for name, text in pages.items():
        assert '<meta name="description" content="' in text, name
        assert f"<loc>{SITE}{name}</loc>" in sitemap
        assert name.removesuffix(".html") in models
        assert f'href="{REPOSITORY}/edit/main/docs/{name.removesuffix("html")}md"' in text
    inventory = (site / "objects.inv").read_bytes().split(b"zlib.\n")[1]
    found = zlib.decompress(inventory).decode()
    public = {*arraybridge.__all__} - {"__version__"}
    assert not [name for name in public if f"arraybridge.{name} py:" not in found]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_result_of_the_search_answers(address, browser, question):
    page, answer = browser.new_page(), QUESTIONS[question]
    page.goto(address)
    page.keyboard.press("Control+k")
    page.keyboard.type(question)
    page.keyboard.press("Enter")
    first = page.locator("ul.search li > a").first
    first.click()
    found = page.url.removeprefix(address).partition("?")[0]
    hash_of = page.evaluate("location.hash")
    if answer.startswith("#"):
        # An entry of the index stands at the top of its answer.
        heading = page.locator(f"section{answer} {hash_of}, section{answer}{hash_of}")
        assert page.url.startswith(address + "questions.html") and heading.count(), page.url
    else:
        assert (found.partition("#")[0] + hash_of).startswith(answer), page.url
    page.close()


WIDE = """() => {
  const limit = document.documentElement.clientWidth;
  const own = e => /auto|scroll|hidden/.test(getComputedStyle(e).overflowX);
  const scrolls = e => e && (own(e) || scrolls(e.parentElement));
  return Array.from(document.querySelectorAll('main *'))
    .filter(e => e.getBoundingClientRect().right > limit + 1 && !scrolls(e.parentElement))
    .map(e => `${e.tagName}: ${e.textContent.trim().slice(0, 50)}`);
}"""
BROKEN = "Array.from(document.images).filter(i => !i.naturalWidth).map(i => i.src)"


def test_nothing_is_broken_too_wide_or_closed_to_anybody(site, address, page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    faults = []
    page.on("console", lambda said: said.type == "error" and faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    for name in names(site):
        page.goto(address + name, wait_until="load")
        faults += [f"{name}: {each}" for each in page.evaluate(BROKEN) + page.evaluate(WIDE)]
        for violation in axe.run(page, options={"preload": False}).response["violations"]:
            nodes = [node["html"][:120] for node in violation["nodes"][:2]]
            faults.append(f"{name}: {violation['id']}: {nodes}")
    assert not faults, "\n".join(faults)


def test_code_is_copied_without_its_prompts_and_follows_the_dark_mode(address, page):
    def colours():
        return page.locator("pre").first.evaluate("e => Object.values(getComputedStyle(e)).join()")

    page.emulate_media(color_scheme="light")
    page.goto(address + "index.html")
    light = colours()
    page.locator("button.copybtn").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("pip install '.[torch,jax]'\npython -m arraybridge doctor")
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert colours() != light
