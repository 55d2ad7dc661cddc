"""Between capture and the entry: compiled versions of a function, and what varies between calls."""
