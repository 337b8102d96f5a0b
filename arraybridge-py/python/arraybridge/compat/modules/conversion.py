"""Records of conversions."""

from arraybridge.compat.observers import *  # noqa: F403
from arraybridge.compat.observers import __all__  # noqa: F401
