"""Last of the page: data, page.css, page.js -> one file that needs nothing else, or a frame for
notebooks."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from jitcap.base.garbage import collection_paused
from jitcap.base.page_policy import policy
from jitcap.report.contents import Contents


def page(explanation: Any, profile: Any = None) -> str:
    """The page of an explanation; `profile`: of running it, shown beside."""
    with collection_paused():  # of many small objects, all of which are there to the end
        data = json.dumps(Contents(explanation, profile).data(), separators=(",", ":"))
    script = _resource("page.js")
    return _PAGE.format(
        policy=policy(script),
        title=html.escape(explanation.name),
        style=_resource("page.css"),
        data=data.replace("<", "\\u003c"),  # no tag ends the block
        script=script,
    )


def fragment(explanation: Any) -> str:
    """The page in a frame, for notebooks."""
    return (
        f'<iframe srcdoc="{html.escape(page(explanation))}" '
        f'title="{html.escape(explanation.name)}" '
        'style="width:100%;height:40em;border:1px solid #8886"></iframe>'
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
{policy}
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{style}</style>
<body>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
