"""Around the compiled graph, on request: is it what Python does?

verified.py   `verify=True`: every call runs plainly, and the compiled version beside it
snapshot.py   what objects hold, before and after, and copies of arrays (`copies.py`)
compare.py    two values side by side
tolerance.py  how far two right answers may lie apart
host.py       what is printed, logged and warned of
bisect.py     a difference -> the operation or the place, the user's line, and why
nans.py       `check_nans=True`: the first operation that makes a NaN
"""

from jitcap.verify.bisect import VerifyError as VerifyError
from jitcap.verify.nans import search_nans as search_nans
from jitcap.verify.verified import Verified as Verified

__all__ = ["Verified", "VerifyError", "search_nans"]
