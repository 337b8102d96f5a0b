"""The crates of this repository, which share a target folder."""

import tomllib
from collections import Counter

from bridges import ROOT


def test_no_two_extension_modules_have_the_same_library():
    """Cargo gives such a library no hash, and takes that of another crate for it."""
    names: Counter[str] = Counter()
    for place in ("*", "examples/*", "tests/*", "tests/benchmarks/*"):
        for manifest in ROOT.glob(f"{place}/Cargo.toml"):
            crate = tomllib.loads(manifest.read_text())
            library = crate.get("lib", {})
            if "cdylib" in library.get("crate-type", ()):
                name = library.get("name", crate["package"]["name"])
                names[name.replace("-", "_")] += 1
    assert set(names) >= {"_core", "image_filters", "extension"}
    assert set(names.values()) == {1}, names
