"""The programs of examples/gallery give what the same pipelines give without arraybridge."""

import re
import subprocess
import sys

import bridges
import numpy as np
import pytest
from PIL import Image

FOLDER = bridges.ROOT / "examples" / "gallery"
PAGE = bridges.ROOT / "docs" / "gallery.md"
PICTURES = bridges.ROOT / "docs" / "gallery"
PROGRAMS = {path.stem for path in FOLDER.glob("*.py")} - {"run", "pictures"}


def run(program, *arguments, **options):
    command = [sys.executable, str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, **options)


def test_every_program_gives_what_it_gives_without_arraybridge(torch, jax, tf, cle, tmp_path):
    pytest.importorskip("skimage")
    done = run(FOLDER / "run.py", "--pictures", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    measured = re.findall(r"^(\w+): .* differs by \S+ from \w", done.stdout, re.MULTILINE)
    skipped = re.findall(r"^(\w+): skipped: (?:dask|zarr|xarray|joblib) is", done.stdout, re.M)
    assert {*measured, *skipped} == PROGRAMS and len(PROGRAMS) > 20, done.stdout
    for picture in tmp_path.iterdir():
        new, shown = (
            np.asarray(Image.open(folder / picture.name), "float32")
            for folder in (tmp_path, PICTURES)
        )
        assert new.shape == shown.shape and np.abs(new - shown).mean() < 2, (
            f"docs/gallery/{picture.name} is out of date: make gallery"
        )


def test_a_program_runs_as_it_is_copied_and_fails_if_the_result_differs(tmp_path):
    pytest.importorskip("skimage")
    text = (FOLDER / "out_of_memory.py").read_text()
    copied = tmp_path / "copied.py"
    for code, status in (
        (text, 0),
        (text.replace("return np.minimum", "return 1 + np.minimum", 1), 1),
    ):
        copied.write_text(code)
        done = run(copied, cwd=tmp_path)
        assert done.returncode == status and "differs by" in done.stdout, done.stderr


def test_the_page_shows_every_program():
    shown = re.findall(r"\(\.\./examples/gallery/(\w+)\.py\)", PAGE.read_text())
    assert {*shown} == PROGRAMS
    for name in PROGRAMS:
        # Else a copy would lack what it imports.
        imported = re.findall(
            r"^ *(?:from|import) (\w+)", (FOLDER / f"{name}.py").read_text(), re.M
        )
        assert not {*imported} & {path.stem for path in FOLDER.glob("*.py")}
    files = {picture.stem for picture in PICTURES.iterdir()}
    assert (
        files == set(re.findall(r"\]\(gallery/(\w+)\.jpg\)", PAGE.read_text())) and len(files) >= 8
    )
    assert sum(picture.stat().st_size for picture in PICTURES.iterdir()) < 300_000
