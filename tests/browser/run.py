"""Opens pages of explanations in Chromium and uses them as a person would: scripts/browser runs it.

--large N      a GPT of N layers is the page (24: the largest that sizes are stated for)
--pictures DIR screenshots are written there
"""

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import chromium
import program

import jitcap
from jitcap.report import fragment

MOST_NODES = 2000
MOST_BYTES = 3_000_000
MOST_SECONDS = 1.0
NODES = "document.querySelectorAll('*').length"


def check_open(browser, page, path):
    browser.open(path)
    seconds = browser.run("performance.getEntriesByType('navigation')[0].domComplete") / 1e3
    size = path.stat().st_size
    print(f"     {size:,} bytes, {seconds:.2f} s, {browser.run(NODES)} nodes")
    assert size < MOST_BYTES and seconds < MOST_SECONDS


def check_offline(browser, page, path):
    assert all(url.startswith(("file:", "data:")) for url in browser.requests), browser.requests


def check_links(browser, page, path):
    """A click on a source line marks what came of it everywhere, and a click there leads back."""
    marked = "page.code.map(p => p.runs.length > 0 && !!p.rows.querySelector('.pinned'))"
    row = (
        "page.code[{pane}].rows.children[{line} - page.code[{pane}].first].getBoundingClientRect()"
    )
    line = page.run_line("y = F.scaled_dot_product_attention")
    browser.run(f"page.code[0].reveal({line})")
    at = browser.run(f"(r => [r.x + 200, r.y + 9])({row.format(pane=0, line=line)})")
    browser.click(*at)
    assert browser.run(marked) == [True] * browser.run("page.code.length")
    assert browser.run("page.code[0].current") == line
    # Back: a line of the kernels' code.
    back = browser.run("page.code[3].runs[0][0]")
    at = browser.run(f"(r => [r.x + 200, r.y + 9])({row.format(pane=3, line=back)})")
    browser.run("page.link('pinned', [])")
    browser.click(*at)
    assert line in browser.run("page.code[0].runs.map(r => r[0])")


def check_hover(browser, page, path):
    at = browser.run(
        "(r => [r.x + 200, r.y + 9])(page.code[0].rows.querySelector('.linked').getBoundingClientRect())"
    )
    browser.move(*at)
    assert browser.run("page.marks.hover.size") == 1
    assert browser.run("document.querySelector('footer').textContent.trim().length") > 5


def check_keys(browser, page, path):
    browser.press("Escape")
    assert browser.run("page.marks.pinned.size") == 0
    browser.run("page.activate(page.code[0])")
    first = browser.run("page.code[0].current")
    browser.press("j")
    browser.press("j")
    browser.press("k")
    assert browser.run("page.code[0].current") == first + 1
    browser.press("J", shift=True)
    assert browser.run("page.marks.pinned.size") == 1
    browser.press("/")
    assert browser.run("document.activeElement === page.box")
    for key in "gelu":
        browser.press(key)
    assert browser.run("page.code[0].found.length") > 0
    browser.press("Enter")
    assert "gelu" in browser.run("page.active.lines[page.active.current]")
    browser.press("Escape")
    browser.press("?", shift=True)
    assert browser.run("page.dialog.open")
    browser.run("page.dialog.close()")
    for number, view in enumerate(("Code", "Graph", "Rewrites", "Memory", "Timeline"), 1):
        browser.press(str(number))
        assert browser.run("page.view") == view


def check_scrolling(browser, page, path):
    """However far a text is scrolled, the document stays small."""
    for view in ("Code", "Graph", "Rewrites", "Memory", "Timeline"):
        browser.run(f"page.show('{view}')")
        for share in (0.3, 1, 0):
            browser.run(
                f"page.panes.forEach(p => p.scroller.scrollTop = {share} * p.scroller.scrollHeight)"
            )
            browser.settle()
            assert browser.run(NODES) <= MOST_NODES
            assert browser.run("page.active.rows.children.length") > 0
    browser.run("page.show('Code')")
    last = browser.run(
        "(p => { p.scroller.scrollTop = 1e9; p.render();"
        " return p.rows.lastChild.textContent === p.lines[p.lines.length - 1] })(page.code[0])"
    )
    assert last


def check_graph(browser, page, path):
    browser.run("page.show('Graph')")
    few = browser.run("page.views.Graph.flat.length")
    browser.run("page.search('gelu')")
    browser.run("page.nextFound(1)")
    assert browser.run("page.views.Graph.flat.length") > few
    assert "gelu" in "\n".join(browser.run("page.views.Graph.details.lines"))
    assert browser.run("page.marks.pinned.size") == 1
    browser.run("page.search('model.blocks.1.attn')")  # a module's path
    browser.run("page.nextFound(1)")
    assert "in model.blocks.1.attn" in "\n".join(browser.run("page.views.Graph.details.lines"))
    browser.run("page.search('')")
    browser.run("page.views.Graph.start()")
    labels = browser.run("page.views.Graph.flat.map(b => b.label)")
    assert any("model" in label for label in labels), labels
    group = "page.views.Graph.flat.find(b => b.foldable)"
    at = browser.run(
        "((b, c, r) => [r.x + c.x + (b.left + b.w / 2) * c.scale, r.y + c.y + (b.top + 12) * c.scale])"
        f"({group}, page.views.Graph.canvas.at, page.views.Graph.canvas.canvas.getBoundingClientRect())"
    )
    browser.click(*at, count=2)
    assert browser.run("page.views.Graph.open.size") == 1


def check_rewrites(browser, page, path):
    browser.run("page.show('Rewrites')")
    assert "simplify" in " ".join(browser.run("page.views.Rewrites.list.lines"))
    signs = set()
    for _ in range(browser.run("page.views.Rewrites.list.lines.length")):
        signs |= set(browser.run("page.views.Rewrites.right.text.signs || []"))
        browser.press("j")
    assert {"+", "-", "@"} <= signs


def check_memory(browser, page, path):
    browser.run("page.show('Memory')")
    blocks = browser.run("page.views.Memory.map.blocks.length")
    assert blocks > 5
    browser.press("j")
    assert browser.run("page.views.Memory.step") == 1
    assert browser.run("page.views.Memory.details.lines.length") > 3


def check_dark(browser, page, path):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(paper)
    browser.dark(True)
    dark = browser.run(paper)
    browser.dark(False)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 24, 29)")


def check_no_errors(browser, page, path):
    assert not browser.errors, browser.errors


CHECKS = (
    check_open, check_offline, check_links, check_hover, check_keys, check_scrolling, check_graph,
    check_rewrites, check_memory, check_dark, check_no_errors,
)  # fmt: skip


def check_timeline(browser, page, path):
    """Compiles, recompiles with both values, and splits, of a function that was called."""
    browser.open(path)
    browser.run("page.show('Timeline')")
    story = "\n".join(browser.run("page.views.Timeline.story.lines"))
    assert "recompile" in story and "split" in story and "expected" in story and ", got " in story
    kinds = browser.run("page.data.events.map(e => e.kind)")
    assert {"compile", "recompile", "split"} <= set(kinds)
    assert not browser.errors, browser.errors


def check_notebook(browser, page, path):
    """The page in a frame of another."""
    browser.open(path)
    frame = "document.querySelector('iframe').contentDocument"
    assert browser.run(f"{frame}.querySelectorAll('.row').length") > 5
    assert not browser.errors, browser.errors


def check_profile(browser, page, path):
    """The page of a profile: a click on the memory says what holds it then."""
    browser.open(path)
    painted = (
        "(c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].some(x => x))"
        "(document.getElementById({name!r}))"
    )
    assert browser.run(painted.format(name="c")) and browser.run(painted.format(name="m"))
    held = "document.getElementById('mh').textContent"
    peak = browser.run(held)
    assert "temporaries" in peak
    at = browser.run("(r => [r.x + r.width / 3, r.y + 40])(m.getBoundingClientRect())")
    browser.click(*at)
    assert browser.run(held) != peak and "GPT." in browser.run(held)
    assert not browser.errors, browser.errors


def check_markup(browser, page, path):
    """Names that are markup are shown as they are: in every view."""
    browser.open(path)
    for view in ("Code", "Graph", "Rewrites", "Memory", "Timeline"):
        browser.run(f"page.show('{view}')")
    browser.run("page.show('Graph'); page.search('img'); page.nextFound(1)")
    browser.settle()
    assert program.MARKUP in browser.run("document.querySelector('h1').textContent")
    assert not browser.run("document.querySelectorAll('img').length")
    assert not browser.run("!!window.injected")
    assert not browser.errors, browser.errors


class Program:
    """The page's source, to be found by text."""

    def __init__(self):
        self.lines = Path(program.__file__).read_text().splitlines()

    def run_line(self, text):
        return next(i for i, line in enumerate(self.lines) if text in line)


def pages(folder, layers):
    """Files: of the step, of a function that is split, and a notebook's."""
    step, args = program.trained(layers)
    step(*args)
    with jitcap.profile(memory=True) as profile:
        step(*args)
    profile.html(folder / "profile.html")
    start = time.perf_counter()
    step.explanation().html(folder / "step.html", profile)
    print(f"     a page in {time.perf_counter() - start:.1f} s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        split = program.again().explanation()
    split.html(folder / "split.html")
    program.named_by_markup().html(folder / "markup.html")
    (folder / "notebook.html").write_text(f"<body>{split._repr_html_()}</body>")
    assert fragment(split) == split._repr_html_()


def pictures(browser, folder, path):
    """What the documentation shows."""
    line = Program().run_line("y = F.scaled_dot_product_attention")
    browser.size(1500, 820)
    browser.open(path)
    browser.run(f"page.code[0].pick({line}); page.code[0].reveal({line})")
    browser.settle()
    browser.picture(folder / "page-code.png")
    browser.run("page.show('Graph'); page.search('model.blocks.1.attn'); page.nextFound(1)")
    browser.run("page.search(''); page.views.Graph.canvas.redraw()")
    browser.settle()
    browser.picture(folder / "page-modules.png")
    browser.dark(True)
    for view in ("Graph", "Rewrites", "Memory", "Timeline"):
        browser.run(f"page.show('{view}')")
        browser.settle()
        browser.picture(folder / f"page-{view.lower()}.png")
        browser.dark(False)


def pictures_of_memory(browser, folder, path):
    browser.size(1200, 900)
    browser.open(path)
    browser.settle()
    browser.picture(folder / "profile.png")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", type=int, default=4)
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    path = chromium.find()
    if path is None:
        print("browser checks: no Chromium is found (apt-get install chromium, or $CHROMIUM)")
        return 0
    failed = passed = 0
    with tempfile.TemporaryDirectory() as folder:
        pages(Path(folder), given.large)
        browser = chromium.Browser(path, Path(folder) / "profile")
        try:
            browser.size(1600, 1000)
            each = [(check, "step") for check in CHECKS]
            others = (
                (check_timeline, "split"), (check_notebook, "notebook"),
                (check_profile, "profile"), (check_markup, "markup"),
            )  # fmt: skip
            for check, name in (*each, *others):
                try:
                    check(browser, Program(), Path(folder) / f"{name}.html")
                    passed += 1
                    print(f"ok   {check.__name__}")
                except Exception as error:
                    failed += 1
                    print(f"FAIL {check.__name__}: {error!r} {browser.errors[:2]}")
            if given.pictures:
                pictures(browser, given.pictures, Path(folder) / "step.html")
                pictures_of_memory(browser, given.pictures, Path(folder) / "profile.html")
        finally:
            browser.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
