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
    """Turn a function into one that can be called inside ``jax.jit``, ``jax.vmap`` and others.

    Parameters
    ----------
    function : callable
        A declared function of any framework, in Python or Rust. It must depend on its arguments
        only, and may not write to them: JAX calls it once, several times or not at all.
    result : callable or tuple of callables
        Called with the arguments, with a ``jax.ShapeDtypeStruct`` in place of each JAX array.
        Returns what has the shape and the dtype of the result. A tuple has one callable for each
        of several results.
    backward : callable, optional
        ``backward(gradient, *arguments)`` returns a tuple with the gradient of each argument, or
        None for one without, or the gradient of the first argument alone. It is compiled by JAX.
        ``gradient`` is a tuple if there are several results.
    vmap_method : str, optional
        As of ``jax.pure_callback``. "sequential" calls the function for each element of the batch.

    Returns
    -------
    callable
        A function of the same arguments that returns JAX arrays. Arguments that are not JAX arrays
        are passed to the function as they are.

    Raises
    ------
    UnexpectedResultError
        If the function returns something else than ``result`` says. In a compiled program, JAX
        raises its ``JaxRuntimeError`` with the text of any exception.

    Notes
    -----
    In a compiled program, the function runs on whatever thread JAX calls it on. That need not be
    the caller's, where ``dtype_policy``, ``no_copy`` and ``trace`` hold; ``trace(everywhere=True)``
    and the policy of the declaration always do.
    It gets arrays on the host, whose memory belongs to JAX again as soon as the function returns.

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
    """Register a function as an operator of PyTorch, which ``torch.compile`` takes as it is.

    Parameters
    ----------
    function : callable
        A declared function of any framework, in Python or Rust. It must depend on its arguments
        only, and may not write to them.
    name : str
        The operator's name with its namespace, such as "mylib::blur".
    result : callable or tuple of callables
        Called with the arguments, with tensors that have no values. Returns a tensor that has the
        shape, the dtype and the device of the result. A tuple has one callable for each of several
        results. Results are contiguous.
    backward : callable, optional
        ``backward(gradient, *arguments)`` returns a tuple with the gradient of each argument, or
        None for one without, or the gradient of the first argument alone. It is compiled by
        PyTorch. ``gradient`` is a tuple if there are several results.
    schema : str, optional
        The operator's schema, such as "(Tensor image, float sigma) -> Tensor". By default it is
        that of the function's signature: parameters are tensors unless their annotations or
        defaults are numbers, bools or strings.

    Returns
    -------
    torch.library.CustomOpDef
        The operator, which is called like the function. It takes and returns tensors. Under
        ``torch.vmap`` the function is called for each element of the batch. PyTorch does not take
        gradients of such operators by ``torch.func.grad``.

    Raises
    ------
    ValueError
        If the name has no namespace.
    UnexpectedResultError
        If the function returns something else than ``result`` says; when the operator is called.

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
