"""At the edge: what `python -m jitcap` does. A command and its arguments -> text, a status."""
