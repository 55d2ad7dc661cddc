"""Beside everything: an explanation as a page that needs nothing else. Explanation -> HTML.

    links       jitcap/report/links.py         lines of texts -> the user's lines
    kernels     jitcap/report/kernels.py       kernels -> the user's lines
    picture     jitcap/report/picture.py       Graph -> groups that fold
    memory      jitcap/report/memory.py        memory plan -> blocks over time
    contents    jitcap/report/contents.py      Explanation -> the data of the page
    page        jitcap/report/page.py          data, page.css, page.js -> the page

Imported when a page is first asked for.
"""

from jitcap.report.page import fragment as fragment
from jitcap.report.page import page as page
