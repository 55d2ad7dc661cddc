"""Beside capture: on a CPython whose bytecode is not known, one call is run and its ops are noted.

`capture` has the signature and the product of `jitcap.capture.capture`, which it is where the
bytecode is known. Else CPython itself runs the function once, on the program's own objects, which
are borrowed (`object_swap`) for that time and put back; what it calls is looked at (`call_hook`).
"""

from jitcap.by_dispatch.capture import capture as trace

__all__ = ["trace"]
