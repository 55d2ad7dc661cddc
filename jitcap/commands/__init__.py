"""At the edge: what `python -m jitcap` does. a command and its arguments -> text, a status."""
