"""Capture: the complete table of operations. importing it registers all families -> OPCODES."""

from jitcap.capture.opcodes import build, call, flow
from jitcap.capture.opcodes.basic import OPCODES

__all__ = ["OPCODES", "build", "call", "flow"]
