"""What random pipelines found: each a small case of a kind."""

import warnings

import arraybridge as ab
import numpy as np
import pytest


def test_a_traced_complex_array_is_true_where_its_imaginary_part_is(tf):
    values = np.array([0, 1j, 1, 0 - 2j, np.nan], "complex64")

    def cast(x):
        return ab.finish_dtype(x, x, dtype_conversion="bool")

    assert tf.function(cast)(tf.constant(values)).numpy().tolist() == (values != 0).tolist()
    assert cast(tf.constant(values)).numpy().tolist() == (values != 0).tolist()


def parted(function, **options):
    """A declared function that finds memory only for parts of 3 rows or fewer."""

    def short(x):
        if len(x) > 3:
            raise MemoryError
        return function(x)

    return ab.numpy(short, split_axis=0, on_oom="split", join="concatenate", **options)


@pytest.mark.filterwarnings("ignore::arraybridge.FractionsLostWarning")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.repeat(x * 1.5, 2, axis=0),
        lambda x: x[x > 130] * 1.5,
        lambda x: (x * 1.5)[: len(x) // 2],
        lambda x: x * 1.5,
        lambda x: np.concatenate([x, x[-1:]]) * 1.5 if len(x) == 3 else x * 1.5,
    ],
    ids=["longer", "chosen", "shorter", "as long", "as long at first"],
)
def test_a_declared_concatenation_takes_results_of_any_length(function):
    image = np.arange(126, 136, dtype="uint8")
    lengths = []
    found = parted(lambda x: lengths.append(len(x)) or function(x))(image)
    stops = np.cumsum(lengths)
    parts = [function(image[stop - n : stop]) for n, stop in zip(lengths, stops, strict=True)]
    wanted = np.concatenate(parts)
    # Only what is as long as the image is one, however many parts it came in.
    wanted = np.rint(wanted).astype("uint8") if len(wanted) == len(image) else wanted
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype


def test_tiles_that_cannot_be_placed_are_not_told_to_be_concatenated():
    image = np.ones((20, 20), "float32")
    points = ab.numpy(lambda tile: np.argwhere(tile > 0), tiles=(8, 8), join="concatenate")
    with pytest.raises(ValueError, match="declare how") as caught:
        points(image)
    assert "concatenate" not in str(caught.value)


def test_one_element_of_a_framework_that_makes_numbers_of_them_is_a_tile(cle):
    image = np.arange(17 * 17, dtype="float32").reshape(17, 17)
    doubled = ab.pyclesperanto(lambda x: x + x, tiles=(16, 16), output_type="numpy")
    np.testing.assert_array_equal(doubled(image), image * 2)


def test_a_tensor_with_a_gradient_that_overflows_is_warned_of(torch):
    wide = ab.torch(lambda x, w: x.double() * w)
    x = torch.ones(3)
    w = torch.tensor(1e300, dtype=torch.float64, requires_grad=True)
    with pytest.warns(ab.ClippedValuesWarning, match="3 values .* infinite"):
        result = wide(x, w)
    assert result.dtype == torch.float32 and result.requires_grad


@pytest.mark.parametrize("first", ["a name", None, 3])
def test_an_image_behind_something_else_gets_one_warning_for_all_slices(first):
    stack = np.arange(90, 150, dtype="uint8").reshape(5, 3, 4)
    halves = ab.numpy(lambda image: (first, image / 2), slice_by_slice=True)
    with warnings.catch_warnings(record=True, action="always") as caught:
        _, image = halves(stack)
    (warning,) = caught
    assert "30 values" in str(warning.message)
    assert image.dtype == "uint8"
    np.testing.assert_array_equal(image, np.rint(stack / 2))
