"""The rooms of arraybridge-runtime use each other in one direction only."""

import sys

import pytest
from bridges import ROOT

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import rooms  # noqa: E402


def test_no_rooms_use_each_other_in_a_ring():
    ring = rooms.ring(rooms.uses())
    assert not ring, "\n".join(f"{use.user} uses {use.used}: {use.line}" for use in ring)


def test_the_page_lists_the_rooms():
    page = rooms.PAGE.read_text()
    assert page == rooms.with_listing(page), "run: python tests/tools/rooms.py --write"


@pytest.fixture
def crate(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.rs").write_text(text)
        return tmp_path

    return write


def test_a_ring_is_found_with_its_lines(crate):
    sources = crate(
        lib="mod a;\nmod b;\nmod c;\n",
        a="use crate::b;\n",
        b="use std::fmt;\nuse crate::{c::{self, d}, b};\n",
        c="fn f() -> crate::a::T {}\n",
    )
    ring = rooms.ring(rooms.uses(sources))
    assert [(use.user, use.used, use.line) for use in ring] == [
        ("a", "b", "a.rs:1"),
        ("b", "c", "b.rs:2"),
        ("c", "a", "c.rs:1"),
    ]
    with pytest.raises(ValueError, match="ring"):
        rooms.listing(sources)


def test_rooms_in_one_direction_are_listed_with_what_they_are(crate):
    sources = crate(
        lib="use crate::a;\n",
        a="//! The upper room. It has\n//! [`T`].\n// use crate::b;\nuse crate::b::{x, y};\n",
        b="//! The lower room:\n//! [`z`] and 0.5.\n//!\n//! More.\n"
        "/// As [`crate::a`].\nuse crate::b::z;\n",
    )
    assert rooms.ring(rooms.uses(sources)) == []
    assert rooms.listing(sources).split("\n")[2:] == [
        "| `b` | The lower room: `z` and 0.5 | no other room |",
        "| `a` | The upper room | `b` |",
    ]
