"""Capture: the complete table of operations. importing it registers all families -> OPCODES."""

from jitcap.capture import opcodes_build, opcodes_call, opcodes_flow
from jitcap.capture.opcodes import OPCODES

__all__ = ["OPCODES", "opcodes_build", "opcodes_call", "opcodes_flow"]
