from . import convert as convert
from . import convert_memory as convert_memory
from . import detect_memory_type as detect_memory_type
from . import explain as explain

__all__ = ["convert", "convert_memory", "detect_memory_type", "explain"]
