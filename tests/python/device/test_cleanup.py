"""Clearing caches calls the loaded frameworks, and imports none."""

import gc
import types

import arraybridge as ab
import bridges
import faked
import pytest
from arraybridge import gpu_cleanup, utils


def test_without_an_accelerator_nothing_is_done_and_no_garbage_collected(torch, monkeypatch):
    if torch.cuda.device_count():
        pytest.skip("this machine has one")

    calls = []

    # An exception would not do: what a framework raises becomes a warning.
    def called(*arguments):
        calls.append(arguments)

    monkeypatch.setattr(torch.cuda, "empty_cache", called)
    with monkeypatch.context() as patched:
        patched.setattr(gc, "collect", called)
        assert gpu_cleanup.cleanup_torch_gpu() == gpu_cleanup.cleanup_torch_gpu(0) == {}
        assert gpu_cleanup.cleanup_numpy_gpu() == gpu_cleanup.cleanup_tensorflow_gpu() == {}
    assert ab.cleanup_all_gpu_frameworks() == ab.cleanup_all_gpu_frameworks(0) == {}
    assert not calls


@bridges.alone
def test_with_numpy_alone_no_garbage_is_collected():

    calls = []
    gc.collect = lambda *arguments: calls.append(arguments)
    assert ab.cleanup_all_gpu_frameworks() == ab.cleanup_all_gpu_frameworks(0) == {}
    assert not calls


def test_with_an_accelerator_garbage_is_collected_first():
    # A fake CuPy, whose device is the accelerator.
    faked.run("""
        import fake_cupy
        fake_cupy.mount()
        import arraybridge as ab

        class Cycle:
            def __init__(self):
                self.me = self

            def __del__(self):
                fake_cupy.LOG.append("collected")

        Cycle()
        fake_cupy.LOG.clear()
        ab.cleanup_all_gpu_frameworks(0)
        assert fake_cupy.LOG[0] == "collected" and len(fake_cupy.LOG) == 3, fake_cupy.LOG
        """)


def test_each_device_is_cleared_in_its_own_scope():
    # A fake CuPy with two devices. It checks the control flow only.
    faked.run("""
        import fake_cupy
        fake_cupy.mount()
        import arraybridge as ab
        from arraybridge.gpu_cleanup import cleanup_cupy_gpu

        for device, cleared in ((None, [0, 1]), (1, [1]), (2, [])):
            fake_cupy.LOG.clear()
            expected = {"cupy": cleared} if cleared else {}
            assert ab.cleanup_all_gpu_frameworks(device) == expected
            # Two pools, each on the devices in turn.
            where = [entry.rpartition(" on ")[2] for entry in fake_cupy.LOG]
            assert where == [str(index) for index in cleared for _ in range(2)], fake_cupy.LOG
            assert fake_cupy.current_device() == 0
        assert cleanup_cupy_gpu(0) == {"cupy": [0]}
        """)


def test_every_framework_has_a_function_of_its_own():
    for member in ab.MemoryType:
        function = getattr(gpu_cleanup, f"cleanup_{member}_gpu")
        assert function is gpu_cleanup.MEMORY_TYPE_CLEANUP_REGISTRY[member]
    assert gpu_cleanup.cleanup_numpy_gpu() == {}
    assert set(gpu_cleanup.__all__) <= set(vars(gpu_cleanup))


@pytest.mark.parametrize("bad", (-1, "0", 1.5))
def test_a_device_that_is_not_an_index_is_an_error(bad):
    with pytest.raises((TypeError, OverflowError)):
        ab.cleanup_all_gpu_frameworks(bad)


def test_a_missing_module_is_falsy_and_cannot_be_called():
    import numpy

    assert utils.optional_import("numpy") is numpy
    missing = utils.optional_import("no_such_module_at_all")
    assert not missing and not missing.cuda.Stream
    assert isinstance(missing.cuda, utils._ModulePlaceholder)
    assert "no_such_module_at_all" in repr(missing)
    with pytest.raises(ImportError, match=r"no_such_module_at_all\.cuda\.Stream is not available"):
        missing.cuda.Stream()


def test_the_original_packages_submodules_exist():
    import arraybridge.converters
    import arraybridge.dtype_scaling
    import arraybridge.slice_processing
    import arraybridge.stack_utils

    assert arraybridge.converters.convert_memory is ab.convert_memory
    assert arraybridge.converters.detect_memory_type is ab.detect_memory_type
    assert arraybridge.dtype_scaling.SCALING_FUNCTIONS is ab.SCALING_FUNCTIONS
    assert arraybridge.slice_processing.process_slices is ab.process_slices
    assert arraybridge.stack_utils.stack_slices is ab.stack_slices
    assert isinstance(arraybridge.gpu_cleanup, types.ModuleType)
