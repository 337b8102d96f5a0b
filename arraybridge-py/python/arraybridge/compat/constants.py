"""The frameworks' names as constants: ``MEMORY_TYPE_TORCH`` and so on."""

from __future__ import annotations

from ..types import GPU_MEMORY_TYPES, MemoryType

VALID_MEMORY_TYPES = {member.value for member in MemoryType}
VALID_GPU_MEMORY_TYPES = {member.value for member in GPU_MEMORY_TYPES}

for _member in MemoryType:
    globals()[f"MEMORY_TYPE_{_member.name}"] = _member.value
