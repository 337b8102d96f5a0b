"""`explain` says in advance what a conversion then records."""

import arraybridge as ab
import bridges
import numpy as np
import objects
import pytest
from explained import difference

OPTIONS = [
    {}, {"copy": True}, {"copy": False}, {"device": "host"}, {"device": "host", "copy": True},
    {"dtype": "float32"}, {"dtype": "float32", "copy": False}, {"dtype": "uint8", "copy": True},
]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ", ".join(f"{k}={o[k]}" for k in o))
@pytest.mark.parametrize(("source", "target"), bridges.pairs())
def test_explain_equals_the_record_of_the_conversion(source, target, options, tmp_path):
    with bridges.x64(True):
        cases = [
            (name, difference(x, target, options)) for name, x, _ in bridges.cases(source, tmp_path)
        ]
    wrong = [f"{name}: {found}" for name, found in cases if found]
    assert len(cases) > 20
    assert not wrong, f"{len(wrong)} of {len(cases)} cases:\n" + "\n".join(wrong[:25])


@pytest.mark.parametrize("target", bridges.CPU_FRAMEWORKS)
@pytest.mark.parametrize(
    "name",
    ["masked array", "objects", "structured array", "sparse tensor", "meta tensor",
     "complex32 tensor", "conjugated view", "imaginary part of a conjugate",
     "tensor that requires grad", "PRNG key", "int4 array", "sparse tensorflow tensor",
     "string tensor", "tensorflow variable", "float8 of TensorFlow", "tensorflow scalar"],
)  # fmt: skip
def test_explain_refuses_exactly_what_the_conversion_refuses(name, target):
    bridges.need(objects.MODULES.get(name, "numpy"))
    (x, _), wrong = objects.make(name), []
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
