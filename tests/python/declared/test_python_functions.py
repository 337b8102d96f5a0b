"""A declared Python function is a Python function, and tools treat it as one."""

import concurrent.futures
import doctest
import functools
import inspect
import multiprocessing
import pickle
import sys
import types
import typing
import warnings

import arraybridge as ab
import bridges
import declared_module
import numpy as np
import pytest

VALUES = np.arange(6, dtype="int32").reshape(2, 3)


class Shift:
    def __call__(self, image):
        return image + 1

    def method(self, image):
        return image + 1


@pytest.mark.parametrize("name", bridges.TITLES)
def test_a_declared_python_function_is_a_python_function(name):
    function = getattr(ab, name)(lambda image: image)
    assert type(function) is types.FunctionType and inspect.isfunction(function)


@pytest.mark.parametrize(
    "what", [Shift(), Shift().method, Shift, len, np.sqrt, functools.partial(declared_module.plain)]
)
def test_any_other_callable_becomes_an_object(what):
    assert type(ab.numpy(what)) is ab.Declared


@pytest.mark.parametrize("call", ["f(a)", "f(a, 2)", "f(image=a, by=2)", "f(*[a], **{'by': 2})"])
def test_every_way_to_call_it_goes_through_the_declaration(torch, call):
    seen = []

    @ab.torch(output_type="numpy")
    def f(image, by=2):
        seen.append(type(image).__module__)
        return image * by

    code = compile(call, "call", "eval")
    for _ in range(20):  # the interpreter specializes calls
        assert np.array_equal(eval(code, {"f": f, "a": VALUES}), VALUES * 2)
    assert set(seen) == {"torch"}


def test_a_missing_argument_is_an_error_of_the_function():
    with pytest.raises(TypeError, match=r"doubled\(\) missing 1 required positional argument"):
        declared_module.doubled()


TRACEBACK = """
import traceback
import arraybridge as ab, numpy as np

@ab.numpy
def f(image):
    raise KeyError("mine")

try:
    f(np.ones(2))
except KeyError as error:
    *_, frame = ours = traceback.extract_tb(error.__traceback__)[1:]
first = f.__wrapped__.__code__.co_firstlineno
assert {(entry.name, entry.filename) for entry in ours} == {("f", __file__)}, ours
assert [entry.lineno for entry in ours][:-1] in ([], [first]) and "mine" in frame.line, ours
"""


def test_tracebacks_name_the_function_and_its_file(tmp_path):
    """Once a graph of PyTorch broke, other frames hide calls from it: this needs a new process."""
    file = tmp_path / "program.py"
    file.write_text(TRACEBACK)
    bridges.survives(f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')")


def test_warnings_name_the_line_of_the_call():
    values = VALUES.astype("uint8")
    inner = ab.numpy(lambda image: image + 0.5)
    other = ab.numpy(lambda image: image + 0.5)
    outer = ab.numpy(lambda image: other(image))
    with warnings.catch_warnings(record=True, action="always") as caught:
        inner(values)
        line = sys._getframe().f_lineno - 1
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]
    with warnings.catch_warnings(record=True, action="always") as caught:
        outer(values)
    # The call is in the function that the outer declaration is for.
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line - 2)]


@pytest.mark.parametrize("function", [lambda image: image, declared_module.plain])
def test_an_exchanged_closure_is_called_as_python_calls_it(function):
    f = ab.numpy(function)
    assert (f(VALUES) == function(VALUES)).all()
    f.__closure__[0].cell_contents = lambda *args, **kwargs: (args, kwargs)
    assert f(1, by=2) == ((1,), {"by": 2})
    f.__closure__[0].cell_contents = 3
    with pytest.raises(TypeError, match="not callable"):
        f(1)
    del f.__closure__[0].cell_contents
    with pytest.raises(NameError):
        f(1)


def test_a_function_is_nested_if_its_own_is():
    """Without the GIL, CPython counts references to nested functions only."""
    for own in (declared_module.plain, lambda image: image):
        flags = own.__code__.co_flags, ab.numpy(own).__code__.co_flags
        assert len({each & inspect.CO_NESTED for each in flags}) == 1, own


def test_the_object_in_a_closure_is_exchanged_while_threads_call_it():
    first, second = ab.numpy(declared_module.plain), ab.numpy(lambda image: image + 1)
    objects = [f.__closure__[0].cell_contents for f in (first, second)]
    done = []

    def call():
        while not done:
            assert (first(VALUES) == VALUES + 1).all()
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call) for _ in range(4)]
        for number in range(1000):
            first.__closure__[0].cell_contents = objects[number % 2]
            # The last reference is the one in the cell.
            objects[number % 2] = ab.numpy(lambda image: image + 1).__closure__[0].cell_contents
        done.append(True)
        assert all(each.result() for each in calls)


# Introspection


def test_inspect_sees_the_function():
    f = declared_module.doubled
    assert inspect.getsource(f).startswith("@arraybridge.numpy\ndef doubled(image):")
    assert inspect.getsourcefile(f) == declared_module.__file__
    assert inspect.getmodule(f) is declared_module and f.__globals__ is vars(declared_module)
    assert list(inspect.signature(f).parameters) == inspect.getfullargspec(f).args == ["image"]
    assert inspect.getdoc(f) == "Twice the image." and inspect.unwrap(f) is f.__wrapped__


def test_functools_wraps_keeps_the_declaration_visible():
    @functools.wraps(declared_module.doubled)
    def wrapper(*args, **kwargs):
        return declared_module.doubled(*args, **kwargs)

    assert wrapper.input_memory_type == "numpy" and wrapper.__name__ == "doubled"
    assert inspect.signature(wrapper) == inspect.signature(declared_module.doubled)
    assert (wrapper(VALUES) == VALUES * 2).all()
    # A dtype that the call asks for reaches the declared function through the wrapper.
    shown = ab.numpy(wrapper)(VALUES, dtype_conversion="float32")
    assert shown.dtype == "float32"


def test_doctest_finds_its_examples():
    module = types.ModuleType("filters")
    code = "def f(image):\n    '''\n    >>> 1 + 1\n    2\n    '''\n"
    exec(code, vars(module))
    module.f = ab.numpy(module.f)
    (found,) = (t for t in doctest.DocTestFinder().find(module) if t.name.endswith("f"))
    assert len(found.examples) == 1


def test_sphinx_documents_it_as_a_function(tmp_path):
    pytest.importorskip("sphinx")
    (tmp_path / "conf.py").write_text("extensions = ['sphinx.ext.autodoc']\n")
    (tmp_path / "index.rst").write_text(".. automodule:: declared_module\n   :members:\n")
    code = """
        import sys
        from sphinx.cmd.build import build_main
        source, target = sys.argv[1:]
        sys.exit(build_main(["-q", "-b", "text", source, target]))
    """
    bridges.survives(code, str(tmp_path), str(tmp_path / "out"))
    page = (tmp_path / "out" / "index.txt").read_text()
    assert "declared_module.doubled(image)" in page
    assert "Twice the image." in page


# Copies and processes


def test_a_function_under_another_name_pickles_if_it_is_given_that_name():
    with pytest.raises(pickle.PicklingError, match="not the same object as declared_module.plain"):
        pickle.dumps(declared_module.renamed)
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        result = pool.submit(declared_module.named, VALUES).result()
    assert (result == VALUES + 1).all()


def test_cloudpickle_takes_the_declaration_along(torch, tmp_path):
    cloudpickle = pytest.importorskip("cloudpickle")
    by = 3
    f = ab.torch(lambda image: image * by, output_type="numpy")
    (tmp_path / "pickle").write_bytes(cloudpickle.dumps(f))
    code = """
        import pathlib, pickle, sys, numpy as np
        f = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
        assert f(np.ones(2, "uint8")).tolist() == [3, 3]
        assert f.execution_memory_type == "torch"
        assert f(np.ones(2, "uint8"), dtype_conversion="float64").dtype == "float64"
        from arraybridge._core import _is_declared
        assert _is_declared(f)
    """
    bridges.survives(code, str(tmp_path / "pickle"))


def test_joblib_runs_it_and_notices_when_its_code_changes(tmp_path):
    joblib = pytest.importorskip("joblib")
    f = ab.numpy(lambda image: image + 1)
    with joblib.parallel_config(backend="loky", n_jobs=1):
        (result,) = joblib.Parallel()([joblib.delayed(f)(VALUES)])
    assert (result == VALUES + 1).all()
    from joblib.func_inspect import get_func_code

    source, file, _ = get_func_code(declared_module.doubled)
    assert "return image * 2" in source and file == declared_module.__file__


# Other libraries


def test_pydantic_validates_its_calls():
    pydantic = pytest.importorskip("pydantic")

    @ab.numpy
    def f(image: typing.Any, by: int = 2):
        return image * by

    checked = pydantic.validate_call(f)
    assert (checked(VALUES, by="3") == VALUES * 3).all()
    for wrong in ({"by": "three"}, {"dtype_conversion": "float32"}):
        with pytest.raises(pydantic.ValidationError):
            checked(VALUES, **wrong)


def test_beartype_checks_its_calls():
    beartype = pytest.importorskip("beartype")

    @beartype.beartype
    @ab.numpy
    def f(image: np.ndarray, by: int = 2) -> np.ndarray:
        return image * by

    assert (f(VALUES, by=3) == VALUES * 3).all()
    assert f(VALUES, dtype_conversion="float32").dtype == "float32"
    with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
        f(VALUES, by="three")


def test_a_function_that_numba_compiles_can_be_declared():
    numba = pytest.importorskip("numba")
    f = ab.numpy(numba.njit(lambda image: image * 2))
    assert (f(VALUES) == VALUES * 2).all()


@bridges.alone
def test_torch_compiles_around_it(torch):
    # Dynamo cannot be imported after TensorFlow.
    f = ab.torch(lambda image: image * 2)
    around = torch.compile(lambda image: f(image) + 1, backend="eager")
    itself = torch.compile(f, backend="eager")
    x = torch.arange(4)
    assert around(x).tolist() == [1, 3, 5, 7] and itself(x).tolist() == [0, 2, 4, 6]
    assert itself(x.numpy()).tolist() == [0, 2, 4, 6]


def test_tensorflow_traces_it_with_its_declaration(tf, caplog):
    kinds = []

    @ab.tensorflow(output_type="tensorflow", input_dtype="float32")
    def f(image):
        kinds.append(image.dtype.name)
        return image * 2

    assert tf.function(f)(tf.constant(VALUES)).numpy().tolist() == (VALUES * 2).tolist()
    assert kinds == ["float32"] and "AutoGraph" not in caplog.text
