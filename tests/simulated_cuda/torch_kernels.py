"""PyTorch's CUDA operations, computed by its CPU kernels on the same (simulated) device memory in
the stream's order.

PyTorch's own code on the host stays as it is: allocator, streams, events, copies, guards,
autograd and DLPack. Only what would launch machine code is replaced, through `torch.library`.
"""

from __future__ import annotations

import ctypes
import itertools
import traceback
from collections.abc import Callable, Sequence

import loader
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

# Operations that launch nothing, so PyTorch's own do.
KEPT = {
    "_efficientzerotensor", "_local_scalar_dense", "_reshape_alias", "alias", "as_strided",
    "empty.memory_format", "empty_strided", "is_set_to", "record_stream", "resize_", "set_",
    "set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor", "unfold",
    "view", "view_as_complex", "view_as_real", "zero_",
}  # fmt: skip

RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
pending: dict[int, Callable[[], object]] = {}
numbers = itertools.count(1)
own: dict[str, object] = {}  # what must not be collected, and PyTorch's own copy_


@RUN
def run(number: int) -> None:
    """Called by the machine when a piece of work is done."""
    try:
        pending.pop(number)()
    except BaseException:
        traceback.print_exc()
        raise


def span(x: torch.Tensor) -> tuple[int, int]:
    """The bytes from a tensor's first element to its last."""
    if x.numel() == 0:
        return 0, 0
    start = x.data_ptr()
    elements = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)) + 1
    return start, start + elements * x.element_size()


def alias(x: torch.Tensor) -> torch.Tensor:
    """A CPU tensor that is the same memory. Only work of the device may look at it."""
    storage = x.untyped_storage()
    if storage.nbytes() == 0:
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    buffer = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    flat = torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
    y = torch.empty(0, dtype=x.dtype).set_(flat, x.storage_offset(), x.shape, x.stride())
    y = torch.conj(y) if x.is_conj() else y
    return torch._neg_view(y) if x.is_neg() else y


def put(
    name: str,
    device: torch.device,
    reads: Sequence[torch.Tensor],
    writes: Sequence[torch.Tensor],
    work: Callable[[], object],
) -> None:
    """Put work on the device's current stream."""
    stream = torch.cuda.current_stream(device).cuda_stream
    ranges = [(*span(x), 0) for x in reads] + [(*span(x), 1) for x in writes]
    count = len(ranges)

    def column(kind: type, index: int):
        return (kind * count)(*(row[index] for row in ranges))

    number = next(numbers)
    pending[number] = work
    error = loader.machine.simulated_work(
        name.encode(), ctypes.c_void_p(stream), device.index, count, column(ctypes.c_size_t, 0),
        column(ctypes.c_size_t, 1), column(ctypes.c_int, 2), run, ctypes.c_void_p(number),
    )  # fmt: skip
    if error:
        del pending[number]
        raise RuntimeError(f"CUDA error {error} (simulated): {name}")


def is_cuda(x: object) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == "cuda"


def elsewhere(x: object, tensor: Callable[[torch.Tensor], torch.Tensor], device: str) -> object:
    """An argument for the same operation on another device."""
    if is_cuda(x):
        return tensor(x)
    if isinstance(x, torch.device) and x.type == "cuda":
        return torch.device(device)
    return x


def device_of(flat: Sequence[object]) -> torch.device:
    """Where an operation runs: where its first tensor is, else on the device that it names."""
    for x in flat:
        if is_cuda(x):
            return x.device
    named = next((x for x in flat if isinstance(x, torch.device)), torch.device("cuda"))
    if named.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return named


def written_by(schema) -> Callable[[tuple, dict], list[torch.Tensor]]:
    """Finds the arguments that an operation writes to."""
    names = [
        (index, argument.name)
        for index, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]

    def find(args: tuple, kwargs: dict) -> list[torch.Tensor]:
        found = [args[index] if index < len(args) else kwargs.get(name) for index, name in names]
        return [x for x in tree_flatten(found)[0] if is_cuda(x)]

    return find


def implementation(name: str, op) -> Callable:
    """The operation on CUDA tensors."""
    find_written = written_by(op._schema)

    def on_meta(flat, spec, metas):
        """The results without values; None where only the values tell."""

        def meta(x):
            shape = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
            return metas.setdefault(id(x), shape)

        try:
            args, kwargs = tree_unflatten([elsewhere(x, meta, "meta") for x in flat], spec)
            return op(*args, **kwargs)
        except (NotImplementedError, RuntimeError):
            return None

    def kernel(*args, **kwargs):
        with torch.no_grad():
            return compute(args, kwargs)

    def compute(args, kwargs):
        flat, spec = tree_flatten((args, kwargs))
        inputs = [x for x in flat if is_cuda(x)]
        written = find_written(args, kwargs)
        device = device_of(flat)
        metas: dict[int, torch.Tensor] = {}
        shapes = on_meta(flat, spec, metas)
        for x in written:  # an `out=` of another size
            meta = metas.get(id(x))
            if shapes is not None and meta is not None and meta.shape != x.shape:
                x.resize_(meta.shape)
        aliases: dict[int, torch.Tensor] = {}

        def cpu(x):
            return aliases.setdefault(id(x), alias(x))

        host_args, host_kwargs = tree_unflatten([elsewhere(x, cpu, "cpu") for x in flat], spec)
        reads = [x for x in inputs if not any(x is other for other in written)]

        def call():
            with torch.no_grad():
                return op(*host_args, **host_kwargs)

        made, made_spec = tree_flatten(shapes)
        if shapes is None or not all(x is None or isinstance(x, torch.Tensor) for x in made):
            return wait(call, {id(aliases[id(x)]): x for x in inputs}, device, reads, written)
        same = {id(metas[id(x)]): x for x in inputs if id(x) in metas}
        # A thread of the machine ends the work, and must not free a tensor of the device: PyTorch's
        # allocator may be waiting for that work.
        results, fresh, targets = [], [], []
        for index, x in enumerate(made):
            if x is None or id(x) in same:
                results.append(same.get(id(x)))
                continue
            result = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)
            results.append(result)
            fresh.append(result)
            targets.append((index, alias(result)))

        def work():
            values = tree_flatten(call())[0]
            for index, target in targets:
                target.copy_(values[index])

        put(name, device, reads, written + fresh, work)
        return tree_unflatten(results, made_spec)

    def wait(call, given, device, reads, written):
        """Compute what has a shape that depends on values: the host has to wait for it."""
        box: list = []
        put(name, device, reads, written, lambda: box.append(call()))
        torch.cuda.current_stream(device).synchronize()
        values, values_spec = tree_flatten(box[0])
        results = []
        for value in values:
            if not isinstance(value, torch.Tensor) or id(value) in given:
                results.append(given.get(id(value), value))
                continue
            result = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=device
            )
            target = alias(result)
            put(name, device, [], [result], lambda t=target, v=value: t.copy_(v))
            results.append(result)
        return tree_unflatten(results, values_spec)

    return kernel


def copy_(keys, self, source, non_blocking=False):
    """Copies to another dtype or layout need a kernel. The others are PyTorch's."""
    if is_cuda(self) and is_cuda(source):
        if self.numel() == 0:
            return self
        is_memcpy = (
            self.dtype == source.dtype
            and self.shape == source.shape
            and self.stride() == source.stride()
            and self.is_contiguous()
            and self.is_neg() == source.is_neg()
            and self.is_conj() == source.is_conj()
        )
        if not is_memcpy:
            to, from_ = alias(self), alias(source)
            # The kernel runs on the source's device, in order with the other one's stream.
            here, there = (torch.cuda.current_stream(x.device) for x in (self, source))
            if here != there:
                there.wait_stream(here)
            put("copy_", source.device, [source], [self], lambda: to.copy_(from_))
            if here != there:
                here.wait_stream(there)
            return self
    return own["copy_"].call_boxed(keys, self, source, non_blocking)


def install() -> None:
    aten = torch.library.Library("aten", "IMPL")
    own["library"] = aten
    own["copy_"] = torch.library.get_kernel("aten::copy_", "CUDA")
    replaced = 0
    for full in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
        space, _, name = full.partition("::")
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if space != "aten" or name in KEPT or op is None:
            continue
        aten.impl(name, implementation(name, op), "CUDA", allow_override=True)
        replaced += 1
    if replaced < 1000:
        raise loader.layout.unknown(f"PyTorch registers {replaced} operations for CUDA")
    aten.impl("copy_", copy_, "CUDA", with_keyset=True, allow_override=True)
