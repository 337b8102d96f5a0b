"""Set-up of the examples' tests: frameworks are loaded in the one order that no machine minds."""

import bridges

bridges.load()
