"""The compiler's public face: a function -> the same function, compiled. See `jitcap.api`."""
