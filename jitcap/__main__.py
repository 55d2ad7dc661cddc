"""At the edge: `python -m jitcap`, whose commands have a room above the package's names."""

import runpy

if __name__ == "__main__":
    runpy.run_module("jitcap.commands", run_name="__main__")
