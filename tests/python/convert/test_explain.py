"""`explain` says in advance what a conversion then records."""

import arraybridge as ab
import bridges
import numpy as np
import pytest
from explained import difference

OPTIONS = [
    {},
    {"copy": True},
    {"copy": False},
    {"device": "host"},
    {"device": "host", "copy": True},
    {"dtype": "float32"},
    {"dtype": "float32", "copy": False},
    {"dtype": "uint8", "copy": True},
]
pytestmark = [
    pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning"),
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ", ".join(f"{k}={o[k]}" for k in o))
@pytest.mark.parametrize(("source", "target"), bridges.pairs())
def test_explain_equals_the_record_of_the_conversion(source, target, options, tmp_path):
    bridges.need(source, target)
    with bridges.x64(True):
        cases = [
            (name, difference(x, target, options)) for name, x, _ in bridges.cases(source, tmp_path)
        ]
    wrong = [f"{name}: {found}" for name, found in cases if found]
    assert len(cases) > 20
    assert not wrong, f"{len(wrong)} of {len(cases)} cases:\n" + "\n".join(wrong[:25])


def special(name):
    """An array that is more than a description of plain memory."""
    framework, _, kind = name.partition(": ")
    bridges.need(framework)
    if framework == "numpy":
        return {
            "masked": np.ma.masked_array([1.0, 2.0], [False, True]),
            "object": np.array([1, "a"], dtype=object),
            "structured": np.zeros(2, [("a", "i4")]),
        }[kind]
    if framework == "torch":
        import torch

        return {
            "sparse": lambda: torch.eye(3).to_sparse(),
            "meta": lambda: torch.empty(3, device="meta"),
            "complex32": lambda: torch.ones(3, dtype=torch.complex32),
            "conjugate": lambda: torch.tensor([1 + 2j]).conj(),
            "negative": lambda: torch.tensor([1 + 2j]).conj().imag,
            "with a gradient": lambda: torch.ones(3, requires_grad=True),
        }[kind]()
    if framework == "jax":
        import jax

        return {
            "random key": lambda: jax.random.key(0),
            "int4": lambda: jax.numpy.ones(4, dtype="int4"),
        }[kind]()
    import tensorflow as tf

    return {
        "sparse": lambda: tf.sparse.from_dense([[1.0]]),
        "string": lambda: tf.constant(["a"]),
        "variable": lambda: tf.Variable([1.0, 2.0]),
        "float8": lambda: bridges.make("tensorflow", np.ones(8, "float8_e5m2")),
        "scalar": lambda: tf.constant(1.0),
    }[kind]()


SPECIAL = (
    "numpy: masked", "numpy: object", "numpy: structured", "torch: sparse", "torch: meta",
    "torch: complex32", "torch: conjugate", "torch: negative", "torch: with a gradient",
    "jax: random key", "jax: int4", "tensorflow: sparse", "tensorflow: string",
    "tensorflow: variable", "tensorflow: float8", "tensorflow: scalar",
)  # fmt: skip


@pytest.mark.parametrize("target", bridges.CPU_FRAMEWORKS)
@pytest.mark.parametrize("name", SPECIAL)
def test_explain_refuses_exactly_what_the_conversion_refuses(name, target):
    bridges.need(target)
    x, wrong = special(name), []
    for options in OPTIONS:
        found = difference(x, target, options)
        if found:
            wrong.append(f"{options}: {found}")
    assert not wrong, "\n".join(wrong)


def test_a_difference_between_explain_and_the_conversion_is_found(monkeypatch):
    explain, x = ab.explain, np.zeros(3)
    assert difference(x, "numpy", {"copy": True}) is None
    monkeypatch.setattr(ab, "explain", lambda *args, **options: explain(x, "numpy"))
    assert "route: 'keep' became 'copy'" in difference(x, "numpy", {"copy": True})
