from collections.abc import Callable
from typing import Any

__all__ = ["jax_callback", "torch_op"]

def jax_callback(
    function: Callable[..., Any],
    *,
    result: Callable[..., Any] | tuple[Callable[..., Any], ...],
    backward: Callable[..., Any] | None = None,
    vmap_method: str | None = "sequential",
) -> Callable[..., Any]:
    """Make a function callable inside ``jax.jit``, ``jax.vmap`` and other transformations.

    Parameters
    ----------
    function : callable
        A declared function of any framework, in Python or Rust. It must depend on its arguments
        only, and must not write to them: JAX calls it once, several times or not at all.
    result : callable or tuple of callables
        Called with the arguments, with a ``jax.ShapeDtypeStruct`` in place of each JAX array.
        Returns an object with the shape and the dtype of the result. For several results, a tuple
        has one callable for each of them.
    backward : callable, optional
        ``backward(gradient, *arguments)`` returns a tuple with the gradient of each argument, or
        None for one without, or only the gradient of the first argument. JAX compiles it. If there
        are several results, ``gradient`` is a tuple.
    vmap_method : str, optional
        As in ``jax.pure_callback``. "sequential" calls the function for each element of the batch.

    Returns
    -------
    callable
        A function of the same arguments that returns JAX arrays. Arguments that are not JAX arrays
        are passed to the function unchanged.

    Raises
    ------
    UnexpectedResultError
        If the result of the function does not match ``result``. In a compiled program, JAX raises
        its ``JaxRuntimeError`` with the text of any exception.

    Notes
    -----
    In a compiled program, JAX chooses the thread of the call. The caller's ``dtype_policy``,
    ``no_copy`` and ``trace`` apply only in the caller's thread; ``trace(everywhere=True)`` and the
    policy of the declaration always apply. The function gets arrays on the host. When it returns,
    their memory belongs to JAX again.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> @arraybridge.numpy
    ... def ordered(x):
    ...     return numpy.sort(x)
    >>> import jax
    >>> inside = arraybridge.jax_callback(ordered, result=lambda x: x)
    >>> jax.jit(lambda x: inside(x) + 1)(jax.numpy.array([3, 1, 2])).tolist()
    [2, 3, 4]
    """

def torch_op(
    function: Callable[..., Any],
    name: str,
    *,
    result: Callable[..., Any] | tuple[Callable[..., Any], ...],
    backward: Callable[..., Any] | None = None,
    schema: str | None = None,
) -> Any:
    """Register a function as an operator of PyTorch, which ``torch.compile`` keeps in its graph.

    Parameters
    ----------
    function : callable
        A declared function of any framework, in Python or Rust. It must depend on its arguments
        only, and must not write to them.
    name : str
        The operator's name with its namespace, such as "mylib::blur".
    result : callable or tuple of callables
        Called with the arguments, with tensors that have no values. Returns a tensor with the
        shape, the dtype and the device of the result. For several results, a tuple has one callable
        for each of them. Results are contiguous.
    backward : callable, optional
        ``backward(gradient, *arguments)`` returns a tuple with the gradient of each argument, or
        None for one without, or only the gradient of the first argument. PyTorch compiles it. If
        there are several results, ``gradient`` is a tuple.
    schema : str, optional
        The operator's schema, such as "(Tensor image, float sigma) -> Tensor". By default it
        follows the function's signature: parameters are tensors unless their annotations or
        defaults are numbers, bools or strings.

    Returns
    -------
    torch.library.CustomOpDef
        The operator, which is called like the function. It takes and returns tensors. Under
        ``torch.vmap`` the function is called for each element of the batch. ``torch.func.grad``
        does not support such operators.

    Raises
    ------
    ValueError
        If the name has no namespace.
    UnexpectedResultError
        When the operator is called, if the result of the function does not match ``result``.

    Examples
    --------
    >>> import numpy, torch, arraybridge
    >>> @arraybridge.numpy
    ... def ordered(x):
    ...     return numpy.sort(x)
    >>> inside = arraybridge.torch_op(ordered, "docs::ordered", result=lambda x: x)
    >>> inside(torch.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
