"""The op records, one file per family: name, shape and dtype rule (by kind), body, derivative ->
functions and methods."""
