"""What a cubin is made of: registers, spills, vector loads, tensor core instructions. Imported by the tests of triton."""

import re
import subprocess
import tempfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """Resources of one kernel, from the cubin: registers per thread, bytes of stack, shared and
    local memory.
    """

    registers: int
    stack: int
    shared: int
    local: int

    def occupancy(self, warps: int, shared: int) -> float:
        """Resident warps over the 64 an sm_90 multiprocessor holds, `shared` bytes being the
        dynamic ones per block.
        """
        per_block = (self.registers + 7) // 8 * 8 * 32 * warps
        blocks = min(64 // warps, 65536 // per_block, 32, 233472 // (shared + 1024))
        return blocks * warps / 64


def usage(cubin: bytes) -> Usage:
    """Registers, stack, shared and local memory of a cubin with one kernel (`cuobjdump -res-usage`,
    about 3 ms).
    """
    text = _cuobjdump(cubin, "-res-usage")
    found = {k: int(v) for k, v in re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", text)}
    if "REG" not in found:
        raise RuntimeError(f"cuobjdump printed no resource usage:\n{text}")
    return Usage(found["REG"], found["STACK"], found["SHARED"], found["LOCAL"])


def assembly(cubin: bytes) -> str:
    """The machine code (SASS) of a cubin as text."""
    return _cuobjdump(cubin, "-sass")


def instruction_counts(cubin: bytes) -> dict[str, int]:
    """How often each kind of memory access and matrix instruction stands in the machine code.

    Keys: "load128", "load64", "load" (all global loads), "store128", "store64", "store", "local"
    (spills: should be 0), "matrix" (tensor core instructions), "atomic".
    """
    text = assembly(cubin)
    patterns = {
        "load128": r"\bLDG\.E\S*\.128\b",
        "load64": r"\bLDG\.E\S*\.64\b",
        "load": r"\bLDG\b",
        "store128": r"\bSTG\.E\S*\.128\b",
        "store64": r"\bSTG\.E\S*\.64\b",
        "store": r"\bSTG\b",
        "local": r"\b(?:LDL|STL)\b",
        "matrix": r"\b(?:HMMA|HGMMA|QGMMA|IMMA|DMMA)\b",
        "atomic": r"\b(?:ATOMG|ATOM|RED|REDG)\b",
    }
    return {name: len(re.findall(pattern, text)) for name, pattern in patterns.items()}


def _cuobjdump(cubin: bytes, flag: str) -> str:
    import triton

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, flag, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
