"""Objects that carry an array."""

from arraybridge.compat.payloads import ArrayPayload

__all__ = ["ArrayPayload"]
