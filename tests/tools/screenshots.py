"""Take pictures of every page of the built site in a browser, and report what is broken.

Run by `make screenshots`, which needs Chromium. Each page is opened at the width of a desk and of a
phone. The exit status is 1 if the console has an error, an image is broken, or something is wider
than the page.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site-docs"
WIDTHS = {"desk": 1280, "phone": 390}
BROKEN = "Array.from(document.images).filter(i => !i.naturalWidth).map(i => i.src)"
# What scrolls by itself, such as a wide block of code, may be wider.
WIDE = """() => {
  const limit = document.documentElement.clientWidth;
  const own = e => /auto|scroll/.test(getComputedStyle(e).overflowX);
  const scrolls = e => e && (own(e) || scrolls(e.parentElement));
  return Array.from(document.querySelectorAll('[role=main] *'))
    .filter(e => e.getBoundingClientRect().right > limit + 1 && !scrolls(e))
    .slice(0, 3)
    .map(e => `${e.tagName.toLowerCase()}: ${e.textContent.trim().slice(0, 50)}`);
}"""

# Text is wider than its element if a word is.
SIDEWAYS = """() => {
  const page = document.documentElement;
  return page.scrollWidth > page.clientWidth;
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def serve(folder: Path) -> http.server.ThreadingHTTPServer:
    """Serve the site on a free port. Its search does not work from files."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def faults(page: Page, address: str, out: Path) -> Iterator[str]:
    """Open a page and keep a picture of it. Yield what is wrong with it."""
    said: list[str] = []
    page.on("console", lambda message: message.type == "error" and said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda request: said.append(f"{request.url} cannot be loaded"))
    page.goto(address, wait_until="networkidle")
    page.screenshot(path=out, full_page=True)
    yield from (f"console: {text}" for text in said)
    yield from (f"image: {source}" for source in page.evaluate(BROKEN))
    yield from (f"too wide: {element}" for element in page.evaluate(WIDE))
    if page.evaluate(SIDEWAYS):
        yield "the page scrolls sideways"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("chrome"))
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screenshots")
    options = parser.parse_args()
    pages = sorted(options.site.rglob("index.html"))
    if not (options.browser and pages):
        sys.exit("the site is not built: make docs" if options.browser else "Chromium is not found")
    options.out.mkdir(parents=True, exist_ok=True)
    server = serve(options.site)
    found = 0
    with sync_playwright() as playwright:
        # Chromium has no sandbox for root.
        browser = playwright.chromium.launch(
            executable_path=options.browser, args=["--no-sandbox", "--disable-gpu"]
        )
        for path in pages:
            place = path.parent.relative_to(options.site).as_posix()
            name = "index" if place == "." else place.replace("/", "-")
            for kind, width in WIDTHS.items():
                page = browser.new_page(viewport={"width": width, "height": 900})
                address = f"http://127.0.0.1:{server.server_port}/{place}/"
                for fault in faults(page, address, options.out / f"{name}-{kind}.png"):
                    found += 1
                    print(f"{name} ({kind}): {fault}")
                page.close()
        browser.close()
    print(f"{len(pages)} pages, faults: {found}. Pictures: {options.out}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
