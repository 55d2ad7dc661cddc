"""At the edge: `python -m jitcap`, a command (cache, doctor, ...), its arguments -> a status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from jitcap.commands import bisect, cache, doctor, explain, settings


def main(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; 0 if what it looked at is well."""
    parser = argparse.ArgumentParser(prog="python -m jitcap")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in (doctor, cache, explain, bisect, settings):
        command.add_to(commands)
    given = parser.parse_args(arguments)
    status: int = given.run(given)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
