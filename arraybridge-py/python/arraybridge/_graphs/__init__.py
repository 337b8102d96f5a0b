"""Declared functions inside the derivatives and the compiled programs of other frameworks.

``described`` has what is known of arrays and calls before there are values. ``gradients`` records a
call for the caller's framework, and ``function`` is what it records; ``torch``, ``jax`` and
``tensorflow`` have what differs between the frameworks with gradients. ``dynamo`` is what
``torch.compile`` reads in place of a declared function, and ``operator`` makes calls of functions
of other frameworks operators of its graphs. ``schema`` is for operators that programs register.
"""

__all__: list[str] = []
