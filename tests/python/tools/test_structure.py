"""The table of tests/tools/structure.py counts what it says, on a made-up tree."""

import subprocess
import sys

import pytest
from bridges import ROOT

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import structure  # noqa: E402

TREE = {
    "README.md": "# Arrays\n\nOne two three.\n",
    "arraybridge-runtime/src/lib.rs": "mod convert;\nmod host;\n",
    "arraybridge-runtime/src/host.rs": (
        "//! What the host has.\n//! As more of it.\n\n"
        "/// Whatever comes.\npub struct Slot;\n"
        "/// Whether it is.\npub(crate) fn is(a: u8, b: fn(u8, u8) -> u8, c: (u8, u8)) {}\n"
    ),
    "arraybridge-runtime/src/convert/mod.rs": "mod one;\nmod two;\n",
    "arraybridge-runtime/src/convert/one.rs": (
        "use super::two::Slot;\npub struct Kind;\nimpl Kind {\n"
        "    fn many<T: Fn(u8, u8) -> u8, U>(&self, a: T, b: U, c: [u8; 4], d: Slot,) {\n"
        '        let text = "Endpoints::of( fn five(a, b, c, d, e)"; // Endpoints::of(\n'
        "        Endpoints::of(self.module(py));\n    }\n}\n"
        "#[cfg(test)]\nmod tests {\n    fn four(a: u8, b: u8, c: u8, d: u8, e: u8) {}\n}\n"
    ),
    "arraybridge-runtime/src/convert/two.rs": (
        "use super::one::Kind;\npub enum Slot { Kind(Kind) }\n"
    ),
    "arraybridge-macros/src/lib.rs": (
        "/// Those of the macro.\nfn five(a: A, b: B, c: C, d: D, e: E) {}\n"
    ),
    "crates/table/src/lib.rs": "mod read;\n",
}


@pytest.fixture
def counted():
    return structure.counted(TREE)


def test_lines_and_files_are_those_of_each_room_and_crate(counted):
    numbers = counted.numbers
    assert (numbers["lines of `host`"], numbers["files of `host`"]) == (7, 1)
    assert (numbers["lines of `convert`"], numbers["files of `convert`"]) == (16, 3)
    assert numbers["lines of arraybridge-runtime"] == 25
    assert numbers["files of arraybridge-runtime"] == 5
    assert (numbers["lines of arraybridge-macros"], numbers["files of arraybridge-macros"]) == (
        2,
        1,
    )
    assert numbers["lines of crates/table"] == 1


def test_functions_with_many_parameters_are_counted_without_tests_and_texts(counted):
    row = "functions with 5 parameters or more"
    assert counted.names[row] == ["convert/one.rs: many has 5"]
    assert [
        counted.numbers[f"{row}{end}"] for end in ("", ", in `convert`", ", in `declared`")
    ] == [1, 1, 0]


def test_calls_are_counted_without_comments_and_texts(counted):
    assert (counted.numbers["`Endpoints::of(`"], counted.numbers["`module(py)`"]) == (1, 1)


def test_a_type_of_two_files_is_a_word_with_several_types(counted):
    assert counted.names["words with several types"] == ["Slot: convert/two.rs, host.rs"]


def test_items_are_public_with_any_pub(counted):
    assert counted.numbers["public items"] == 4


def test_circles_are_counted_with_their_files(counted):
    assert counted.names["circles of files"] == ["2: convert/one.rs, convert/two.rs"]
    assert (counted.numbers["circles of files"], counted.numbers["files in circles"]) == (1, 2)


def test_a_doc_comment_is_judged_by_its_first_line(counted):
    (row,) = [row for row in counted.names if row.startswith("doc comments")]
    assert [text.partition(": ")[2] for text in counted.names[row]] == [
        "What the host has.",
        "Whether it is.",
        "Those of the macro.",
    ]
    assert counted.numbers["words of the README"] == 5


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
    (tmp_path / "README.md").write_text("changed")
    assert structure.revision("HEAD", tmp_path) == TREE != structure.worktree(tmp_path)


def test_the_columns_of_the_table_are_the_trees(counted):
    other = structure.counted({**TREE, "README.md": "word " * 1200})
    lines = structure.table({"before": other, "after": counted}).split("\n")
    assert lines[0] == "| | before | after |"
    assert "| `convert`: lines in files | 16 in 3 | 16 in 3 |" in lines
    assert "| words of the README | 1,200 | 5 |" in lines
