"""The tools behind ``python -m arraybridge``.

``doctor``, ``selftest`` and ``check`` run the frameworks in processes of their own (``child``), so
that a crash or a hang is a line of the report and does not end it. The modules of their folders are
what these processes run. The templates of ``new`` are in ``crate``.
"""
