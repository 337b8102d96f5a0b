"""The default gives an image back its dtype, and never destroys a result."""

import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest

FRAMEWORKS = [f for f in bridges.CPU_FRAMEWORKS if f != "pyclesperanto"]


@pytest.fixture(autouse=True)
def sixty_four_bits():
    with bridges.x64(True):
        yield


@pytest.fixture
def image():
    rng = np.random.default_rng(11)
    return rng.integers(200, 40000, (40, 50), dtype="uint16")


def quiet(function, *args, **kwargs):
    with warnings.catch_warnings(action="ignore"):
        return function(*args, **kwargs)


# Only floats are brought back, and only to images.


@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint64", "int64"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_floats_for_labels_and_indices_stay_floats(framework, dtype):
    lead = bridges.make(framework, np.arange(6, dtype=dtype).reshape(2, 3))
    floats = bridges.make(framework, np.full((2, 3), 0.5, "float32"))
    assert ab.finish_dtype(floats, lead) is floats
    forced = ab.finish_dtype(floats, lead, dtype_conversion="preserve")
    assert bridges.read(framework, forced)[0] == dtype


@pytest.mark.parametrize("lead", ["uint8", "uint16", "int32", "float32"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_integers_of_another_dtype_keep_it(framework, lead):
    given = bridges.make(framework, np.ones((2, 3), lead))
    labels = bridges.make(framework, np.full((2, 3), 900, "int64"))
    assert ab.finish_dtype(labels, given) is labels


def test_identifiers_that_were_narrowed_for_a_framework_get_their_dtype_back(jax):
    with bridges.x64(False):
        declared = ab.jax(output_type="numpy")(lambda ids: ids + 1)
        with pytest.warns(ab.NarrowedDtypeWarning):
            result = declared(np.arange(3))
    assert result.dtype == "int64" and result.tolist() == [1, 2, 3]


# A result with other axes is a measurement.


@pytest.mark.parametrize(
    "lead, result, dtype",
    [
        ((40, 50), (40, 50), "uint16"), ((40, 50), (80, 25), "float64"),
        ((40, 50), (20, 50), "float64"), ((40, 50), (3, 3), "float64"),
        ((40, 50), (40, 50, 3), "uint16"), ((40, 50), (4, 40, 50), "uint16"),
        ((40, 50, 3), (40, 50), "uint16"), ((40, 50), (40, 50, 5), "float64"),
        ((40, 50), (41, 50, 3), "float64"), ((40, 50), (40,), "float64"), ((40, 50), (), "float64"),
        ((6, 40, 50), (40, 50), "float64"), ((6, 40, 50), (6, 40, 50, 3), "uint16"),
        ((40, 50), (2, 2, 40, 50), "float64"), ((40,), (40, 3), "float64"),
        ((8, 8, 8), (96, 3), "float64"),
    ],
)  # fmt: skip
def test_a_result_is_an_image_if_it_has_the_shape_of_one(lead, result, dtype):
    floats = np.full(result, 700.0)
    assert ab.finish_dtype(floats, np.ones(lead, "uint16")).dtype == dtype


def test_an_axis_of_slices_is_no_axis_of_channels():
    stack = np.full((6, 8, 9), 500, "uint16")
    channels = ab.numpy(lambda image: np.stack([image * 1.0] * 3), slice_by_slice=True)
    assert channels(stack).shape == (6, 3, 8, 9)
    assert channels(stack).dtype == "uint16"
    means = ab.numpy(lambda image: np.array(image.mean()), slice_by_slice=True)
    assert means(stack).dtype == "float64"
    profiles = ab.numpy(lambda image: image.mean(axis=0), slice_by_slice=True)
    assert profiles(stack).dtype == "float64"


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("options", ({}, {"slice_by_slice": True}, {"split_axis": 0}), ids=str)
def test_a_table_of_an_image_is_not_rounded(framework, options):
    affine = np.array([[1.25, 0, 7.5], [0, 1.25, -3.5], [0, 0, 1]], "float32")
    table = bridges.make(framework, affine)
    shape = (2, 8, 9) if "slice_by_slice" in options else (8, 9)
    given = bridges.make(framework, np.full(shape, 5, "uint16"))
    with warnings.catch_warnings(action="error"):
        result = getattr(ab, framework)(lambda image: table, **options)(given)
    dtype, _, bits = bridges.read(framework, result)
    assert dtype == "float32" and bits[-36:] == affine.tobytes()


# A result that rounding would destroy is an error.


def filters():
    pytest.importorskip("skimage")
    from skimage import exposure, filters, restoration, transform

    return {
        "gaussian": lambda image: filters.gaussian(image, 1.0),
        "sobel": filters.sobel,
        "rotate": lambda image: transform.rotate(image, 30),
        "equalize_hist": exposure.equalize_hist,
        "denoise_tv": lambda image: restoration.denoise_tv_chambolle(image, weight=0.1),
    }


@pytest.mark.parametrize("name", ["gaussian", "sobel", "rotate", "equalize_hist", "denoise_tv"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_a_filter_of_scikit_image_is_not_black(image, name, dtype):
    image = (image >> 8).astype(dtype) if dtype == "uint8" else image
    function = filters()[name]
    declared = ab.numpy(function)
    with pytest.raises(ab.ResultCollapsedError) as caught:
        declared(image)
    text = str(caught.value)
    for part in (str(image.min()), str(image.max()), 'scaling="unit"', "native", "preserve"):
        assert part in text
    native = declared(image, dtype_conversion="native")
    np.testing.assert_array_equal(native, function(image))
    scaled = quiet(ab.numpy(function, scaling="unit"), image)
    assert scaled.dtype == dtype
    top = np.iinfo(dtype).max
    assert np.abs(scaled - np.clip(native, 0, 1) * top).max() <= 0.5
    rounded = quiet(declared, image, dtype_conversion="preserve")
    np.testing.assert_array_equal(rounded, np.rint(native).clip(0, top).astype(dtype))


def test_the_error_is_a_value_error_and_a_conversion_error(image):
    with pytest.raises(ValueError) as caught:
        ab.finish_dtype(image / 65535, image, function="blur")
    assert isinstance(caught.value, ab.MemoryConversionError)
    assert str(caught.value).startswith("blur: ")


def test_it_is_an_error_at_each_call(image):
    declared = ab.numpy(lambda image: image / 65535)
    for _ in range(3):
        with pytest.raises(ab.ResultCollapsedError):
            declared(image)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_collapse_is_found_in_every_framework_on_the_host(framework, image):
    result = bridges.make(framework, (image / 65535).astype("float32"))
    with pytest.raises(ab.ResultCollapsedError):
        ab.finish_dtype(result, bridges.make(framework, image))


@pytest.mark.parametrize(
    "values, collapses",
    [
        ([0.4, 1.4, 0.6, 1.4], True),
        ([3.0, 3.4, 4.4, 5.5], False),
        ([0.2, 0.0, 0.0, 900.0], False),
        ([0.0, 1.0, 1.0, 0.0], False),
        ([0.4, np.nan, np.inf, -np.inf], True),
        ([-0.9, 0.2, 0.3, 0.9], True),
        ([0.0, 0.0, 0.0, 0.0], False),
    ],
)  # fmt: skip
def test_a_quarter_of_the_root_mean_square_is_the_limit(values, collapses):
    lead = np.array([[0, 10], [200, 255]], "uint8")
    result = np.reshape(values, (2, 2)).astype("float64")
    if collapses:
        with pytest.raises(ab.ResultCollapsedError):
            ab.finish_dtype(result, lead)
    else:
        quiet(ab.finish_dtype, result, lead)
    with warnings.catch_warnings(action="ignore", category=ab.ClippedValuesWarning):
        assert ab.finish_dtype(result, lead, dtype_conversion="preserve").dtype == "uint8"


def test_a_black_image_collapses_nothing():
    black = np.zeros((5, 6), "uint16")
    assert not ab.numpy(lambda image: image / 65535)(black).any()
    noise = np.full((5, 6), 0.3)
    assert not quiet(ab.finish_dtype, noise, black).any()


def test_an_image_of_ones_may_stay_within_one():
    ones = np.ones((5, 6), "uint8")
    result = np.full((5, 6), 1.0)
    result[0, 0] = 0.95
    assert (quiet(ab.finish_dtype, result, ones) == 1).all()


def test_a_large_bright_image_with_a_dark_border_does_not_collapse():
    image = np.zeros((2000, 2000), "uint16")
    image[900:1000, 900:1000] = 20000
    result = image + 0.25
    assert quiet(ab.finish_dtype, result, image).dtype == "uint16"


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_slices_are_judged_together(framework):
    declared = getattr(ab, framework)(lambda image: image * 0.01, slice_by_slice=True)
    stack = np.zeros((4, 30, 30), "uint16")
    stack[:] = 40
    given = bridges.make(framework, stack)
    with pytest.raises(ab.ResultCollapsedError):
        declared(given)
    stack[2] = 60000
    given = bridges.make(framework, stack)
    result = quiet(declared, given)
    assert bridges.read(framework, result)[0] == "uint16"


def test_a_bright_slice_after_others_is_enough_wherever_it_is():
    declared = ab.numpy(lambda image: image * 0.01, slice_by_slice=True)
    for bright in range(4):
        stack = np.full((4, 30, 30), 40, "uint16")
        stack[bright] = 60000
        assert quiet(declared, stack).max() == 600


def dimmed(image):
    return image * 0.01


def short(image):
    """It finds memory for ten rows alone."""
    if len(image) > 10:
        raise MemoryError
    return dimmed(image)


PARTED = {
    "tiles": ab.numpy(dimmed, tiles=(16, 16)),
    "parts of a call that ran out of memory": ab.numpy(short, split_axis=0, on_oom="split"),
}


@pytest.mark.parametrize("declared", PARTED.values(), ids=PARTED)
def test_parts_are_judged_together(declared):
    image = np.full((50, 50), 40, "uint16")
    with pytest.raises(ab.ResultCollapsedError):
        declared(image)
    image[20:40, 20:40] = 60000
    assert quiet(declared, image).max() == 600


def test_a_chosen_conversion_never_raises(image):
    unit = image / 65535
    for conversion in ("preserve", "uint16", "native"):
        quiet(ab.finish_dtype, unit, image, dtype_conversion=conversion)
    with ab.dtype_policy(dtype_conversion="preserve"):
        assert quiet(ab.finish_dtype, unit, image).dtype == "uint16"
        with pytest.raises(ab.ResultCollapsedError):
            ab.finish_dtype(unit, image, dtype_conversion="default")
