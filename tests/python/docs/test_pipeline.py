"""The pipeline script gives right results for a real stack, and notices wrong ones."""

import subprocess
import sys

import bridges
import pytest

SCRIPT = bridges.ROOT / "examples" / "pipeline" / "pipeline.py"
IMAGES = bridges.ROOT / "build" / "images"


def need_images():
    bridges.need("torch", "jax", "pyclesperanto")
    pytest.importorskip("skimage")
    if not list(IMAGES.glob("stardist-*.whl")):
        pytest.skip(f"no images in {IMAGES}: run `make pipeline`")


def run(code=None):
    what = ["-c", code] if code else [str(SCRIPT), "--images", str(IMAGES)]
    return subprocess.run([sys.executable, *what], capture_output=True, text=True, timeout=400)


def test_a_real_16_bit_stack_keeps_its_dtype_through_three_frameworks():
    need_images()
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if "reference" in line}
    for step, text in {
        "blur": "torch uint16",
        "segment": "jax uint8",
        "nuclei": "pyclesperanto uint32",
        "top": "pyclesperanto uint16",
        "split": "torch uint16",
        "host": "torch uint16",
    }.items():
        assert text in lines[step] and "equal to the reference" in lines[step], done.stdout
    assert "retry (split)" in done.stdout and "OomFallbackWarning" in done.stdout


def test_a_wrong_result_ends_the_pipeline_with_status_1():
    need_images()
    done = run(f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
sys.argv = ["pipeline", "--images", {str(IMAGES)!r}]
import arraybridge, pipeline
pipeline.blur = arraybridge.torch(lambda stack: stack.double() + 1)
sys.exit(pipeline.main())
""")
    assert done.returncode == 1 and "DIFFERENT: blur" in done.stdout, done.stdout + done.stderr
