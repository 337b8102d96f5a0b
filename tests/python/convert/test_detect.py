"""Detection looks at types and imports nothing."""

import textwrap

import arraybridge as ab
import bridges
import numpy as np
import pytest


def test_a_new_type_at_the_address_of_a_freed_one_is_detected_anew():
    # Answers are cached by the address of the type.
    for i in range(2000):
        if i % 2:
            kind = type("Image", (np.ndarray,), {})
            assert ab.detect_memory_type(np.zeros(1).view(kind)) == "numpy"
        else:
            kind = type("Image", (), {"data": bytes(i)})
            with pytest.raises(ab.UnsupportedArrayError):
                ab.detect_memory_type(kind())
        del kind


# What each of these programs imports: the frameworks, or all modules where it has noted some.
IMPORTS = {
    "import": "before = set()",
    "detection": """
        arraybridge.detect_memory_type(numpy.zeros(3))
        before = set(sys.modules)
        for thing in (None, [1], object(), numpy.float32(1), "torch"):
            try:
                arraybridge.detect_memory_type(thing)
            except arraybridge.UnsupportedArrayError:
                continue
            raise SystemExit(f"{thing!r} is an array")
        arraybridge.detect_memory_type(numpy.zeros(3))
    """,
    "an explanation": """
        before = set()
        arraybridge.explain(numpy.zeros(3), "numpy")
        arraybridge.convert(numpy.zeros(3), "numpy", copy=True)
    """,
    "objects of frameworks": """
        before = set()
        [library.display_name for library in arraybridge.ArrayLibrary.all()]
        arraybridge.HOST, arraybridge.ConversionRoute, arraybridge.MemoryType.TORCH.is_installed()
    """,
    "a cleaning": """
        from arraybridge import gpu_cleanup, utils
        before = set(sys.modules)
        assert arraybridge.cleanup_all_gpu_frameworks() == {}
        assert arraybridge.cleanup_all_gpu_frameworks(0) == {}
        assert [f() for f in gpu_cleanup.MEMORY_TYPE_CLEANUP_REGISTRY.values()] == [{}] * 6
        assert utils.loaded_frameworks() == ["numpy"]
    """,
}


def test_the_package_imports_no_framework_and_few_modules():
    """Those that take longest to import are of no use in a call: NumPy and `inspect`."""
    code = """
    import sys
    before = set(sys.modules)
    import arraybridge
    found = set(sys.modules) - before
    names = {f["module"] for f in arraybridge.frameworks()}
    print(sorted(found & {*names, "inspect", "ast", "pickle", "asyncio"}), len(found) < 60)
    """
    assert bridges.survives(textwrap.dedent(code)).strip() == "[] True"


@pytest.mark.parametrize("what", IMPORTS)
def test_no_framework_but_numpy_is_imported(what):
    end = """
        found = set(sys.modules) - before
        names = {f["module"] for f in arraybridge.frameworks()} - {"numpy"}
        print(sorted(found if before else names & found))
    """
    code = (
        "import sys, numpy, arraybridge\n" + textwrap.dedent(IMPORTS[what]) + textwrap.dedent(end)
    )
    assert bridges.survives(code).strip() == "[]"


def test_the_public_class_of_a_frameworks_arrays_is_its_name():
    x = np.ones((2, 2), "float32")
    public = {
        "numpy": "ndarray", "torch": "Tensor", "jax": "Array", "tensorflow": "Tensor",
        "pyclesperanto": "Array",
    }  # fmt: skip
    for name in bridges.INSTALLED:
        module = __import__(name)
        result = ab.convert(x, getattr(module, public[name]))
        assert ab.detect_memory_type(result) == name


def test_an_import_adds_few_modules_to_numpy():
    # 22 of the package on CPython 3.13 and seven of the standard library. Raise it only for what
    # every program needs.
    code = """
        import sys, numpy
        before = set(sys.modules)
        import arraybridge
        print(*sorted(set(sys.modules) - before))
    """
    added = bridges.survives(code).split()
    assert len(added) <= 30, added
