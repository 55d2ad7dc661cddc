"""Graph breaks: capture ends early, and the program goes on in segments, each compiled."""
