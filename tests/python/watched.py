"""Arrays that note what is read and written."""

import threading


class Watched:
    """An array, perhaps in a file. Several can note what happens to them in one list."""

    def __init__(self, array, events=None):
        self.array, self.events = array, [] if events is None else events
        self.shape, self.dtype, self.threads = tuple(array.shape), array.dtype, set()
        for name in ("chunks", "shards"):
            if getattr(array, name, None) is not None:
                setattr(self, name, getattr(array, name))

    def _note(self, what, index):
        self.events.append((what, index))
        self.threads.add(threading.get_ident())

    def __getitem__(self, index):
        self._note("read", index)
        return self.array[index]

    def __setitem__(self, index, values):
        self._note("write", index)
        self.array[index] = values

    @property
    def read(self):
        return [index for what, index in self.events if what == "read"]

    @property
    def written(self):
        return [index for what, index in self.events if what == "write"]
