"""Where capture ends early: the program goes on in pieces, each compiled."""
