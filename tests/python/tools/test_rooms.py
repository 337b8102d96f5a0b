"""The rooms of each crate use each other in one direction only."""

import sys

import pytest
from bridges import ROOT

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import rooms  # noqa: E402


@pytest.mark.parametrize("crate", rooms.CRATES)
def test_no_rooms_use_each_other_in_a_ring(crate):
    ring = rooms.ring(rooms.uses(rooms.CRATES[crate]))
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


@pytest.mark.parametrize("crate", rooms.CRATES)
def test_the_circles_of_files_are_those_that_are_listed(crate):
    found = rooms.misfits(rooms.CRATES[crate], crate=crate)
    assert not found, "\n".join(found)


@pytest.fixture
def listed(tmp_path):
    """Writes a list of circles, and gives how the files of a crate differ from it."""

    def compare(sources, *circles, why="one idea in two files"):
        entries = [f"[[circle]]\nfiles = {files}\nwhy = {why!r}\n" for files in circles]
        path = tmp_path / "circles.toml"
        path.write_text("\n".join(entries))
        return rooms.misfits(sources, path)

    return compare


def folder(path, **files):
    path.mkdir()
    for name, text in files.items():
        (path / f"{name}.rs").write_text(text)


def test_a_circle_inside_a_room_is_found_with_its_lines(tmp_path, listed):
    sources = tmp_path / "src"
    folder(sources, lib="mod a;\n", b="")
    folder(
        sources / "a",
        mod="pub mod one;\nmod two;\nmod three;\nmod four;\npub use two::Two;\n",
        # A comment, a text and a test name what they do not use.
        one="// use super::four::Four;\nuse super::Two;\npub struct One(Two, u8);\n",
        two="use super::three;\npub struct Two;\nfn f() { three::three() }\n",
        three='pub fn three() -> crate::a::one::One { "super::four::Four"; }\n',
        four="use super::one::One;\n#[cfg(test)]\nmod tests { use super::super::four; }\n",
    )
    circle = ["a/one.rs", "a/three.rs", "a/two.rs"]
    assert listed(sources) == [
        f"a circle that is not listed: {circle}",
        "  a/one.rs:2 uses a/two.rs",
        "  a/three.rs:1 uses a/one.rs",
        "  a/two.rs:3 uses a/three.rs",
    ]
    assert listed(sources, circle) == []
    assert listed(sources, circle, why="") == [f"listed without a reason: {circle}"]


def test_a_listed_circle_that_is_gone_is_found(tmp_path, listed):
    sources = tmp_path / "src"
    folder(sources, lib="mod a;\n")
    folder(
        sources / "a",
        mod="mod one;\nmod two;\npub struct Head;\nfn f() { one::one() }\n",
        # Between a `mod.rs` and the files of its folder there is no circle.
        one="use super::Head;\npub fn one() { super::two::two() }\n",
        two="pub fn two() {}\n",
    )
    assert listed(sources) == []
    gone = ["a/one.rs", "a/two.rs"]
    assert listed(sources, gone) == [f"listed, but no circle: {gone}"]


def test_the_head_of_another_folder_is_part_of_a_circle(tmp_path, listed):
    sources = tmp_path / "src"
    folder(sources, lib="mod a;\n")
    folder(
        sources / "a",
        mod="mod inner;\nmod other;\n",
        other="use super::inner::Inner as I;\npub struct Other(I);\n",
    )
    folder(
        sources / "a/inner",
        mod="use crate::a::other::{self, Other};\npub struct Inner(other::Other);\n",
    )
    circle = ["a/inner/mod.rs", "a/other.rs"]
    assert listed(sources)[0] == f"a circle that is not listed: {circle}"
