"""Declarations of functions, as Rust asks for them, and what their calls do in Python.

``options`` has the options of declarations. ``function`` makes declared Python functions, and
``export`` declares Rust functions. ``steps`` has the coroutines and generators of calls. ``ladder``
and ``room`` are for calls that run out of memory.
"""

__all__: list[str] = []
