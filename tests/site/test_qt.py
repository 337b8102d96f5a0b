"""Declared functions in the widgets of Qt, without a display. Run by `make site`."""

import os
import time

import arraybridge as ab
import numpy as np
import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
torch = pytest.importorskip("torch")
magicgui = pytest.importorskip("magicgui").magicgui
widgets = pytest.importorskip("qtpy.QtWidgets")
napari_types = pytest.importorskip("napari.types")
threading = pytest.importorskip("napari.qt.threading")


@pytest.fixture(scope="module")
def application():
    return widgets.QApplication.instance() or widgets.QApplication([])


def names(panel):
    return [widget.name for widget in panel]


def test_an_image_of_napari_gets_a_widget_and_is_processed(application):
    @magicgui(call_button="Smooth")
    @ab.torch(output_type="numpy")
    def smooth(image: napari_types.ImageData, width: int = 3) -> napari_types.ImageData:
        kernel = torch.ones(1, 1, width, width) / width**2
        return torch.nn.functional.conv2d(image[None, None], kernel, padding="same")[0, 0]

    assert names(smooth) == ["image", "width", "call_button"]
    result = smooth(np.ones((8, 8), "float32"))
    assert type(result) is np.ndarray and np.isclose(result[4, 4], 1)


def test_numbers_get_a_widget_each_and_the_button_calls_the_function(application):
    called = []

    @magicgui(call_button="Run")
    @ab.torch
    def threshold(level: float = 0.5, sigma: int = 2) -> float:
        called.append((level, sigma))
        return level * sigma

    assert names(threshold) == ["level", "sigma", "call_button"]
    threshold.native.show()
    threshold.level.value = 0.25
    threshold.call_button.native.click()
    application.processEvents()
    assert called == [(0.25, 2)]


def test_a_worker_of_napari_calls_it_in_another_thread(application):
    @threading.thread_worker
    @ab.torch(output_type="numpy", dtype_conversion="native")
    def doubled(image):
        return image * 2

    results, errors = [], []
    worker = doubled(np.ones((4, 4), "float32"))
    worker.returned.connect(results.append)
    worker.errored.connect(errors.append)
    worker.start()
    end = time.monotonic() + 60
    while not (results or errors) and time.monotonic() < end:
        application.processEvents()
        time.sleep(0.01)
    assert not errors and type(results[0]) is np.ndarray and results[0].sum() == 32
