"""At the edge: `python -m eager script.py ...`, a PyTorch program with this library in the place of
PyTorch; `python -m eager names torch`, which of its names there are. Arguments -> a status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from eager.base.process import launchers
from eager.base.run_script import run_module, run_script
from eager.programs import missing, names, stand_in

USAGE: Final = """usage: python -m eager script.py [arguments]    run a PyTorch program
       python -m eager -m module [arguments]    run a module of one
       python -m eager names torch [--missing]    which of PyTorch's names there are, and why not
"""


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; what a program raises, SystemExit too, leaves this."""
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0 if arguments else 2
    if arguments[0] == "names":
        if [*arguments[1:2]] != ["torch"] or {*arguments[2:]} - {"--missing"}:
            sys.stderr.write(USAGE)
            return 2
        sys.stdout.write(names.report(every="--missing" in arguments))
        return 0
    as_module = arguments[0] == "-m"
    name, *rest = arguments[as_module:] or [""]
    if not name:
        sys.stderr.write(USAGE)
        return 2
    stand_in.install()
    launchers.set_variables()
    missing.report_at_exit(names.reason_of)
    try:
        (run_module if as_module else run_script)(name, rest)
    except Exception as error:
        missing.note_error(error)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
