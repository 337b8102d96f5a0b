"""How often a warning is shown, beside one of Python's own on the same lines."""

import contextlib
import sysconfig
import warnings

import arraybridge as ab
import pytest


def default():
    warnings.simplefilter("default")


def shown(array, change, begin=default):
    """Return how many warnings of ours, and of Python's, were raised or shown in three rounds."""
    raised = [0, 0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        begin()
        for number in range(3):
            with contextlib.nullcontext() if number != 1 else change():
                for _ in range(3):
                    try:
                        ab.convert(array, "torch")
                    except ab.SharedImmutableMemoryWarning:
                        raised[0] += 1
                    try:
                        warnings.warn("beside it", FutureWarning, stacklevel=1)
                    except FutureWarning:
                        raised[1] += 1
        categories = [each.category for each in caught]
    counts = map(categories.count, (ab.SharedImmutableMemoryWarning, FutureWarning))
    return [a + b for a, b in zip(raised, counts, strict=True)]


def changed(action):
    @contextlib.contextmanager
    def change():
        warnings.simplefilter(action)
        yield

    return change


@contextlib.contextmanager
def cleared():
    warnings.resetwarnings()
    yield


@contextlib.contextmanager
def appended():
    warnings.simplefilter("error", append=True)
    yield


@pytest.mark.parametrize(
    "change",
    [*map(changed, ("always", "error", "ignore", "once", "module", "default")), cleared, appended],
)
def test_a_warning_is_shown_as_often_as_one_of_python(torch, jax, change):
    ours, pythons = shown(jax.numpy.ones(3), change)
    assert ours == pythons


IGNORED = {
    "all": {},
    "classes": {"category": Warning},
    "texts": {"message": "this PyTorch array|beside it"},
    "this module": {"module": __name__.replace(".", r"\.")},
    "another class": {"category": DeprecationWarning},
    "another text": {"message": "another"},
    "another module": {"module": "another"},
    "another line": {"lineno": 1},
}


@pytest.mark.parametrize("ignored", IGNORED)
@pytest.mark.parametrize("change", [*map(changed, ("always", "error", "default")), cleared])
@pytest.mark.parametrize("action", ["default", "always"])
def test_a_warning_is_ignored_where_one_of_python_is(torch, jax, action, change, ignored):
    def begin():
        warnings.simplefilter(action)
        warnings.filterwarnings("ignore", **IGNORED[ignored])

    ours, pythons = shown(jax.numpy.ones(3), change, begin)
    assert ours == pythons


@pytest.mark.skipif(
    sysconfig.get_config_var("Py_GIL_DISABLED"), reason="nothing is remembered without a GIL"
)
def test_a_warning_that_is_ignored_is_not_asked_about_again(torch, jax):
    class Pattern:
        asked = 0

        def match(self, text):
            Pattern.asked += 1
            return text

    array = jax.numpy.ones(3)
    with warnings.catch_warnings():
        warnings.filters.insert(0, ("ignore", Pattern(), Warning, None, 0))
        for _ in range(100):
            ab.convert(array, "torch")
    # CPython 3.11 moves the code of a loop once, and the line is another one to us then.
    assert 0 < Pattern.asked <= 4


def test_another_line_and_another_pair_warn_again(torch, jax):
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        x = jax.numpy.ones(3)
        for target in ("torch", "torch"):
            ab.convert(x, target)
        ab.convert(x, "torch")
    assert len({each.lineno for each in caught}) == 2
    assert all(each.filename == __file__ for each in caught)


def test_a_block_with_filters_of_its_own_is_seen(torch, jax):
    x = jax.numpy.ones(3)
    for _ in range(3):
        with pytest.warns(ab.SharedImmutableMemoryWarning, match="shares the memory"):
            ab.convert(x, "torch")
