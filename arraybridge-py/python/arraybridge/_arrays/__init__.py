"""Arrays of libraries that are no frameworks.

``adapters`` has the objects with an array inside, ``columns`` the tables that NumPy makes arrays
of, and ``lazy`` the arrays in files, which are read and written part by part.
"""

__all__: list[str] = []
