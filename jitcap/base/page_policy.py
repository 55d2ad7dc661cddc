"""Beside the pages for people: what one may do. its script -> a tag that forbids all else.

Text of the user's is escaped where it is written. Should some of it be markup for a browser all the
same, it loads and runs nothing.
"""

from __future__ import annotations

import base64
import hashlib


def policy(script: str) -> str:
    """The tag for a page with this script, the text between its tags."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'
