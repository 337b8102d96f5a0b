"""Set-up of the examples' tests: the frameworks are loaded in the one order that no machine minds."""

import bridges

bridges.load()
