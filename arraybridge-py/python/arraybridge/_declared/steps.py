"""Coroutines and generators of declared functions.

``_call`` is what Rust knows of the call. It makes each step on the device of the call, so that two
tasks that take turns on one thread do not run in each other's scopes. If memory runs out, it makes
the call again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__: list[str] = []

# Returns the steps of a call that is made again.
_Begin = Callable[[Any, Any], Any]


class _Base:
    __slots__ = ("__weakref__", "_call", "_inner", "_sent")

    def __init__(self, call: Any, inner: Any, sent: Any = None) -> None:
        # The object that the function returned is inside.
        self._call, self._inner = call, inner
        # The last value with arrays that the caller sent.
        self._sent = sent

    def __getattr__(self, name: str) -> Any:
        # Python inspects coroutines and generators by these attributes.
        if name.startswith(("cr_", "gi_", "ag_", "__name__", "__qualname__")):
            return getattr(self._inner, name)
        text = f'a coroutine or generator of a declared function has no attribute "{name}"'
        raise AttributeError(text)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def _received(self, value: Any) -> Any:
        """Return what the function receives for a value that the caller sends."""
        received = self._call.receive(value)
        if received is None:
            return value
        self._sent = value
        return received


def _itself(_: Any, made: Any) -> Any:
    return made


class _Steps(_Base):
    __slots__ = ("_begin",)

    def __init__(
        self, call: Any, inner: Any, sent: Any = None, begin: _Begin | None = _itself
    ) -> None:
        super().__init__(call, inner, sent)
        # None if the function must not be called again.
        self._begin = begin

    def __next__(self) -> Any:
        return self._step("send", None)

    def send(self, value: Any) -> Any:
        return self._step("send", value)

    def throw(self, *exception: Any) -> Any:
        return self._step("throw", *exception)

    def close(self) -> Any:
        return self._call.step(self._inner, "close", (), self._sent, None)[-1]

    def _step(self, method: str, *arguments: Any) -> Any:
        step = self._call.step(self._inner, method, arguments, self._sent, self._begin)
        self._call, self._inner, is_last, value = step
        return self._ended(value) if is_last else self._yielded(value)

    def _ended(self, value: Any) -> NoReturn:
        raise StopIteration(self._call.finish(value, self._sent))

    def _yielded(self, value: Any) -> Any:
        return value


class Coroutine(_Steps):
    """A coroutine, or a step of an asynchronous generator. It yields to its event loop."""

    __slots__ = ()

    def __await__(self) -> Coroutine:
        return self


class _Close(Coroutine):
    """The step that closes an asynchronous generator, which has no result."""

    __slots__ = ()

    def _ended(self, value: Any) -> NoReturn:
        raise StopIteration(value)


class Generator(_Steps):
    """A generator. What it yields and what it returns are results."""

    __slots__ = ()

    def __iter__(self) -> Generator:
        return self

    def send(self, value: Any) -> Any:
        return self._step("send", self._received(value))

    def _ended(self, value: Any) -> NoReturn:
        if value is None:
            raise StopIteration
        super()._ended(value)

    def _yielded(self, value: Any) -> Any:
        # Another generator would yield the first result once more.
        self._begin = None
        return self._call.finish(value, self._sent)


class AsyncGenerator(_Base):
    """An asynchronous generator."""

    __slots__ = ("_started",)

    def __init__(self, call: Any, inner: Any) -> None:
        super().__init__(call, inner)
        self._started = False

    def __aiter__(self) -> AsyncGenerator:
        return self

    def __anext__(self) -> Coroutine:
        # Another generator would yield the first result once more.
        begin = None if self._started else self._restart
        return self._step(self._inner.__anext__(), begin)

    def asend(self, value: Any) -> Coroutine:
        return self._step(self._inner.asend(self._received(value)))

    def athrow(self, *exception: Any) -> Coroutine:
        return self._step(self._inner.athrow(*exception))

    def aclose(self) -> Coroutine:
        self._started = True
        return _Close(self._call, self._inner.aclose(), self._sent, None)

    def _step(self, step: Any, begin: _Begin | None = None) -> Coroutine:
        self._started = True
        return Coroutine(self._call, step, self._sent, begin)

    def _restart(self, call: Any, made: Any) -> Any:
        self._call, self._inner = call, made
        return made.__anext__()
