"""The pipelines of examples/gallery give what the same pipelines give without arraybridge."""

import importlib.util
import re
import subprocess
import sys
import types

import bridges
import numpy as np
import pytest
from PIL import Image

FOLDER = bridges.ROOT / "examples" / "gallery"
PAGE = bridges.ROOT / "docs" / "gallery.md"
PICTURES = bridges.ROOT / "docs" / "gallery"


def gallery():
    """The module that runs the pipelines. Their folder is in the path only while it is imported."""
    spec = importlib.util.spec_from_file_location("gallery_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        patch.setenv("PYTHONPATH", "")
        spec.loader.exec_module(module)
    return module


def test_every_pipeline_gives_what_it_gives_without_arraybridge(torch, jax, tf, cle, tmp_path):
    pytest.importorskip("skimage")
    command = [sys.executable, str(FOLDER / "run.py"), "--pictures", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    lines = done.stdout.splitlines()
    compared = [line for line in lines if re.search(" (equal|differs by .*, at most .*), ", line)]
    skipped = [line for line in lines if " skipped: " in line]
    assert len(compared) + len(skipped) == len(gallery().PIPELINES) > 20
    assert all(re.search("(dask|zarr|xarray|joblib) is not", line) for line in skipped), skipped
    for picture in tmp_path.iterdir():
        new, shown = (
            np.asarray(Image.open(folder / picture.name), "float32")
            for folder in (tmp_path, PICTURES)
        )
        assert new.shape == shown.shape and np.abs(new - shown).mean() < 2, (
            f"docs/gallery/{picture.name} is out of date: make gallery"
        )


@pytest.mark.parametrize(
    ("result", "why"), [([1, 2], "differs"), ([1], "shape"), ([1.0, 3.0], "dtype")]
)
def test_a_pipeline_that_gives_something_else_fails(monkeypatch, capsys, result, why):
    other = types.SimpleNamespace(
        NEEDS=(), TOLERANCE=0, inputs=lambda: (), reference=lambda: [1, 3]
    )
    other.ours = lambda: result
    monkeypatch.setitem(sys.modules, "other", other)
    assert gallery().main(["other"]) == 1
    assert f"FAILED: AssertionError: {why}" in capsys.readouterr().out


def test_the_page_shows_every_pipeline():
    shown = re.findall(r"\(\.\./examples/gallery/(\w+)\.py\)", PAGE.read_text())
    assert sorted(shown) == sorted(gallery().PIPELINES)
    files = {picture.stem for picture in PICTURES.iterdir()}
    assert (
        files == set(re.findall(r"\]\(gallery/(\w+)\.jpg\)", PAGE.read_text())) and len(files) >= 8
    )
    assert sum(picture.stat().st_size for picture in PICTURES.iterdir()) < 300_000
