"""A copy of a CuPy function runs on the host. The CuPy is a fake, which says nothing about CuPy."""

import functools

import faked

PREFACE = """
import fake_cupy
cupy = fake_cupy.mount()
cupy.__name__ = "cupy"
import types, warnings
import numpy as np, arraybridge as ab

def work(name):
    # A function of the fake that needs memory on the device; NumPy has one of that name.
    def function(x, *rest):
        raise cupy.cuda.memory.OutOfMemoryError("Out of memory allocating 1 bytes")
    function.__name__ = name
    function.__module__ = "cupy"
    return function

for name in ("sqrt", "maximum", "clip"):
    setattr(cupy, name, work(name))
only_here = work("only_here")
cupy.only_here = only_here
image = np.arange(6, dtype="f4").reshape(2, 3)

def host(f, *args):
    fake_cupy.LOG.clear()
    with warnings.catch_warnings(record=True, action="always") as caught:
        result = f(*args)
    assert [w.category for w in caught] == [ab.OomFallbackWarning], caught
    return result

def raises(f, *args):
    try:
        f(*args)
    except MemoryError as error:
        return " | ".join(error.__notes__)
    raise SystemExit("nothing was raised")

kept = dict(globals())
"""


run = functools.partial(faked.run, before=PREFACE)


def test_fake_cupy_a_copy_of_the_function_runs_on_the_host():
    run("""
        import cupy as cp
        from cupy import sqrt

        def helper(x, depth):
            return helper(x, depth - 1) if depth else sqrt(x)

        @ab.cupy(output_type="input")
        def f(image, how=cp.maximum, *, low=cp.clip):
            from cupy import maximum
            import cupy as inside
            assert type(image) is (np.ndarray if inside is np else cp.ndarray)
            return [low(how(inside.sqrt(image), helper(image, 3)), 0, 1) for _ in range(2)][0]

        before = dict(globals())
        assert np.array_equal(host(f, image), np.clip(np.sqrt(image), 0, 1))
        assert {k: v for k, v in globals().items() if k in before} == before
        assert f.__wrapped__.__defaults__ == (cp.maximum,)
        assert "free_all_blocks on 0" in fake_cupy.LOG
        """)


def test_fake_cupy_closures_decorators_and_declared_helpers_are_followed():
    run("""
        import functools
        import cupy as cp

        def logged(function):
            @functools.wraps(function)
            def wrapper(*args):
                return function(*args)
            return wrapper

        def make(xp, level):
            constant = cp.ndarray(np.full(3, 2, "f4"))
            @logged
            def f(image):
                return inner(xp.sqrt(image)) + level * constant
            return f

        @ab.cupy
        def inner(image):
            return cp.sqrt(image)

        f = ab.cupy(output_type="input")(make(cp, 3))
        assert np.allclose(host(f, image), np.sqrt(np.sqrt(image)) + 6)
        part = ab.cupy(output_type="input")(functools.partial(make(cp, 0)))
        assert np.allclose(host(part, image), np.sqrt(np.sqrt(image)))

        class Filter:
            @ab.cupy(output_type="input")
            def run(self, image):
                return cp.sqrt(image)
        assert np.allclose(host(Filter().run, image), np.sqrt(image))
        """)


def test_fake_cupy_an_object_without_a_counterpart_ends_the_rung():
    run("""
        import cupy as cp
        count = 0

        @ab.cupy
        def missing(image):
            return only_here(image)
        assert "only_here" in raises(missing, image)

        @ab.cupy
        def attribute(image):
            return cp.only_here(image)
        assert "only_here" in raises(attribute, image)

        @ab.cupy
        def writes(image):
            global count
            count += 1
            return cp.sqrt(image)
        assert "global" in raises(writes, image) and count == 3
        """)


def test_fake_cupy_host_functions_get_numpy_arrays():
    run("""
        @ab.cupy(host=lambda image: image + 1, output_type="input")
        def f(image):
            return cupy.sqrt(image)
        assert np.array_equal(host(f, image), image + 1)
        """)


def test_fake_cupy_the_caches_are_cleared_on_the_device_of_the_call():
    run("""
        calls = []
        @ab.cupy(device=1, output_type="input", on_oom="clear")
        def f(image):
            calls.append(fake_cupy.current_device())
            if len(calls) == 1:
                cupy.sqrt(image)
            return image
        assert np.array_equal(f(image), image)
        assert calls == [1, 1] and fake_cupy.current_device() == 0
        assert "free_all_blocks on 1" in fake_cupy.LOG
        """)
