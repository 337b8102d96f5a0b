"""The table of tests/tools/structure.py counts what it says, on a made-up tree."""

import subprocess
import sys

import pytest
from bridges import ROOT

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import structure  # noqa: E402

TREE = {
    "arraybridge-runtime/src/lib.rs": "mod convert;\nmod host;\n",
    "arraybridge-runtime/src/host.rs": (
        "pub struct Slot;\npub(crate) fn is(a: u8, b: fn(u8, u8) -> u8, c: (u8, u8)) {}\n"
    ),
    "arraybridge-runtime/src/convert/mod.rs": "mod one;\nmod two;\n",
    "arraybridge-runtime/src/convert/one.rs": (
        "use super::two::Slot;\npub struct Kind;\nimpl Kind {\n"
        "    fn many<T: Fn(u8, u8) -> u8, U>(&self, a: T, b: U, c: [u8; 4], d: Slot,) {\n"
        '        let text = "fn five(a, b, c, d, e)"; // fn five(a, b, c, d, e)\n    }\n}\n'
        "#[cfg(test)]\nmod tests {\n    fn four(a: u8, b: u8, c: u8, d: u8, e: u8) {}\n}\n"
    ),
    "arraybridge-runtime/src/convert/two.rs": (
        "use super::one::Kind;\npub enum Slot { Kind(Kind) }\n"
    ),
    "arraybridge-macros/src/lib.rs": "fn five(a: A, b: B, c: C, d: D, e: E) {}\n",
    "crates/table/src/lib.rs": "mod read;\n",
}


@pytest.fixture
def counted():
    return structure.counted(TREE)


def test_the_rows_are_counted_without_tests_comments_and_texts(counted):
    numbers, names = counted
    many = "functions with 5 parameters or more"
    expected = {
        "lines of `host`": 2, "files of `host`": 1, "lines of `convert`": 15,
        "files of `convert`": 3, "lines of arraybridge-runtime": 19,
        "files of arraybridge-runtime": 5, "lines of arraybridge-macros": 1,
        "files of arraybridge-macros": 1, "lines of crates/table": 1, many: 1,
        "public items": 4, "circles of files": 1, "files in circles": 2,
    }  # fmt: skip
    assert {row: numbers[row] for row in expected} == expected
    assert names[many] == ["convert/one.rs: many has 5"]
    assert names["words with several types"] == ["Slot: convert/two.rs, host.rs"]
    assert names["circles of files"] == ["2: convert/one.rs, convert/two.rs"]


def test_a_revision_is_counted_like_the_working_tree(tmp_path):
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "arraybridge-py" / "src").mkdir(parents=True, exist_ok=True)
    (tmp_path / "arraybridge-py" / "src" / "linked.rs").symlink_to("nowhere.rs")
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "a"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert structure.worktree(tmp_path) == structure.revision("HEAD", tmp_path) == TREE
    (tmp_path / "crates/table/src/lib.rs").write_text("changed")
    assert structure.revision("HEAD", tmp_path) == TREE != structure.worktree(tmp_path)


def test_the_columns_of_the_table_are_the_trees(counted):
    other = structure.counted({**TREE, "crates/table/src/lib.rs": "\n" * 1200})
    lines = structure.table({"before": other, "after": counted}).split("\n")
    assert lines[0] == "| | before | after |"
    assert "| `convert`: lines in files | 15 in 3 | 15 in 3 |" in lines
    assert "| crates/table: lines in files | 1,200 in 1 | 1 in 1 |" in lines
