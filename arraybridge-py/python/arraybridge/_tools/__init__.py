"""The tools behind ``python -m arraybridge``.

``doctor`` and ``selftest`` run the frameworks in processes of their own (``child``), so that a
crash or a hang is a line of the report and does not end it.
"""
