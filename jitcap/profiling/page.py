"""A profile -> a page that needs nothing else: timeline, memory, roofline, rows, the source with
its time.

The timeline is drawn on a canvas (wheel: closer; drag: along; a click on a row marks its runs), of
the longest spans if there are very many.
"""

from __future__ import annotations

import html
import json
import linecache
import math
from collections import defaultdict
from typing import Final

from jitcap.base.page_policy import policy
from jitcap.profiling import memory_chart, table
from jitcap.profiling.memory import Memory
from jitcap.profiling.peaks import Peaks
from jitcap.profiling.rows import Row, Timeline, rows_of

SPANS: Final = 8000  # in the timeline
ROWS: Final = 60
AROUND: Final = 2  # lines of source before and after one that takes time
COLOURS: Final[dict[str, str]] = {
    "kernel": "#2e8b57", "product": "#1f5fa8", "step": "#c4711d", "callback": "#b03060",
    "loop": "#6b8e23", "wait": "#8b0000", "launch": "#999", "call": "#ccc", "eager op": "#7a4fbf",
    "compile": "#d4a017", "guards": "#777", "python": "#bbb",
}  # fmt: skip
COLUMNS: Final = ("us", "share", "calls", "us/call", "GB/s", "GFLOP/s", "roof", "what")


def page(line: Timeline, peaks: Peaks | None, memory: Memory | None) -> str:
    """The page; `memory`: what was recorded of it."""
    rows = rows_of(line)
    script = f"const D={_data(line)};{_SCRIPT}"
    if memory is not None:
        script += memory_chart.script(memory, (line.end - line.begin) / 1e3)
    parts = (
        f"<p>{line.wall / 1e3:,.1f} us in all{_roof(peaks)}</p>",
        "<h2>Timeline</h2><canvas id=c height=240></canvas><p id=at>&nbsp;</p>",
        memory_chart.section(memory) if memory is not None else "",
        f"<h2>Roofline</h2>{_roofline(rows, peaks)}" if peaks is not None else "",
        f"<h2>Rows</h2>{_table(line, rows, peaks)}",
        f"<h2>Source</h2>{_source(line)}",
        f"<script>{script}</script>",
    )
    return (
        f"<!doctype html><meta charset=utf-8>{policy(script)}<title>profile</title>"
        f"<style>{_STYLE}</style><h1>Profile</h1>{''.join(parts)}\n"
    )


def fragment(line: Timeline, peaks: Peaks | None) -> str:
    """The rows and the roofline, for notebooks: no script."""
    rows = rows_of(line)
    plot = _roofline(rows, peaks) if peaks is not None else ""
    return f"<p>{line.wall / 1e3:,.1f} us in all</p>{_table(line, rows[:20], peaks)}{plot}"


def _roof(peaks: Peaks | None) -> str:
    return f"; this machine: {html.escape(str(peaks))}" if peaks is not None else ""


def _table(line: Timeline, rows: list[Row], peaks: Peaks | None) -> str:
    head = "".join(f"<th>{name}" for name in COLUMNS)
    body = []
    for row in rows[:ROWS]:
        floor = table.floor_us(row, peaks)
        cells = (
            f"{row.us:,.1f}", f"{row.us * 1e3 / (line.wall or 1):.1%}", f"{row.calls:,}",
            f"{row.us / row.calls:,.2f}" if row.calls else "",
            f"{row.gbs:.1f}" if row.nbytes else "",
            f"{row.gflops:.1f}" if row.products or row.operations else "",
            f"{floor / row.us:.0%}" if floor and row.us else "",
        )  # fmt: skip
        numbers = "".join(f"<td>{cell}" for cell in cells)
        name, title = html.escape(table.what(row)), html.escape("\n".join(row.lines))
        body.append(f'<tr data-n="{html.escape(row.name)}">{numbers}<td title="{title}">{name}')
    return f"<table><tr>{head}{''.join(body)}</table>"


def _roofline(rows: list[Row], peaks: Peaks) -> str:
    """Operations a second by operations for each byte, both on logarithmic axes; a circle's area is
    the time."""
    width, height = 640, 300
    shown = [r for r in rows if r.nbytes and r.products + r.operations and r.us > 0]
    total = sum(r.us for r in shown) or 1.0
    widest = max(peaks.copies.values())

    def x(intensity: float) -> float:
        return 40 + (width - 60) * (min(max(math.log10(intensity), -2.0), 4.0) + 2) / 6

    def y(rate: float) -> float:
        return height - 30 - (height - 50) * min(max(math.log10(rate) - 6, 0.0), 6.0) / 6

    text = [f'<svg viewBox="0 0 {width} {height}" width={width} font-size=11 fill="currentColor">']
    for peak, name in ((peaks.product, "products"), (peaks.elementwise, "loops")):
        points = " ".join(
            f"{x(10**at):.1f},{y(min(peak, widest * 10**at)):.1f}"
            for at in (-2.0, math.log10(peak / widest), 4.0)
        )
        text.append(f'<polyline points="{points}" fill=none stroke="currentColor"/>')
        text.append(f'<text x={width - 80} y="{y(peak) - 4:.1f}">{name}</text>')
    for r in shown:
        work = r.products + r.operations
        name = html.escape(f"{table.what(r)}: {r.us:,.1f} us, {r.gflops:.1f} GFLOP/s")
        text.append(
            f'<circle cx="{x(work / r.nbytes):.1f}" cy="{y(r.gflops * 1e9):.1f}" '
            f'r="{2 + 16 * math.sqrt(r.us / total):.1f}" fill="{COLOURS.get(r.kind, "#888")}" '
            f"fill-opacity=.6><title>{name}</title></circle>"
        )
    said = "operations for each byte: 0.01 to 10,000; upwards: 1 M to 1 T operations a second"
    text.append(f"<text x=40 y={height - 8}>{said}</text></svg>")
    return "".join(text)


def _source(line: Timeline) -> str:
    """The files with the lines that take time, and some around them."""
    by_file: dict[str, dict[int, float]] = defaultdict(dict)
    for row in rows_of(line, "line"):
        for place in row.lines:
            file, _, number = place.rpartition(":")
            if number.isdigit():
                by_file[file][int(number)] = by_file[file].get(int(number), 0.0) + row.us
    made: list[str] = []
    for file, times in sorted(by_file.items(), key=lambda item: -sum(item[1].values())):
        near = {n + d for n in times for d in range(-AROUND, AROUND + 1)}
        lines = []
        for at in sorted(near):
            text = linecache.getline(file, at)
            if text:
                us = times.get(at, 0.0)
                share = us * 1e3 / (line.wall or 1)
                time = f"{us:12,.1f} us {share:6.1%}" if us else " " * 22
                bar = f"background:linear-gradient(90deg,#d4a01766 {share:.1%},#0000 0)"
                shown = f"{time} {at:5} {html.escape(text.rstrip())}"
                lines.append(f'<span style="{bar}">{shown}</span>')
        total = sum(times.values())
        made.append(f"<details open><summary>{html.escape(file)}: {total:,.1f} us</summary>")
        made.append(f"<pre>{chr(10).join(lines)}</pre></details>")
    return "".join(made)


def _data(line: Timeline) -> str:
    """Spans for the script: names, colours, and [name, start, length, depth] in microseconds."""
    seen: set[int] = set()
    spans = []
    for span, *_ in line.spans:
        if span.end > span.start and id(span) not in seen and span.thread == line.thread:
            seen.add(id(span))
            spans.append(span)
    spans = sorted(spans, key=lambda s: s.start - s.end)[:SPANS]
    spans.sort(key=lambda s: (s.start, -s.end))
    names: dict[tuple[str, str], int] = {}
    rows: list[list[float]] = []
    stack: list[int] = []
    for s in spans:
        while stack and stack[-1] <= s.start:
            stack.pop()
        key = (s.part.name, COLOURS.get(s.part.kind, "#888"))
        number = names.setdefault(key, len(names))
        start, length = (s.start - line.begin) / 1e3, (s.end - s.start) / 1e3
        rows.append([number, round(start, 2), round(length, 2), len(stack)])
        stack.append(s.end)
    whole = (line.end - line.begin) / 1e3
    data = {"n": [*names], "s": rows, "w": whole}
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


_STYLE: Final = (
    "body{font:14px/1.4 system-ui;max-width:80em;margin:1em auto;padding:0 1em}"
    ":root{color-scheme:light dark}canvas{width:100%;height:240px;background:#8881}"
    "table{border-collapse:collapse}td,th{text-align:right;padding:1px 8px;white-space:nowrap}"
    "canvas#m{height:160px}td:last-child,th:last-child{text-align:left}tr.on{background:#d4a01755}"
    "pre{background:#8881;overflow:auto;padding:.5em}pre span{display:block}"
    "summary{cursor:pointer}"
)
_SCRIPT: Final = """
const c=document.getElementById('c'),g=c.getContext('2d'),at=document.getElementById('at');
let lo=0,hi=D.w,on='',drag=null;const also=[];
const X=t=>(t-lo)/(hi-lo)*c.width;
function draw(){c.width=c.clientWidth;g.clearRect(0,0,c.width,240);g.font='11px system-ui';
for(const [n,s,l,d] of D.s){const x=X(s),w=Math.max(X(s+l)-x,.5);if(x+w<0||x>c.width)continue;
g.globalAlpha=on&&D.n[n][0]!==on?.25:1;g.fillStyle=D.n[n][1];g.fillRect(x,d*24,w,22);
if(w>40){g.save();g.beginPath();g.rect(x,d*24,w,22);g.clip();g.fillStyle='#fff';
g.fillText(D.n[n][0],Math.max(x,0)+3,d*24+15);g.restore()}}also.forEach(f=>f())}
function found(e){const t=lo+e.offsetX/c.clientWidth*(hi-lo),d=Math.floor(e.offsetY/24);
return D.s.filter(r=>r[3]===d&&r[1]<=t&&t<=r[1]+r[2]).pop()}
c.onmousemove=e=>{if(drag){const s=(drag-e.offsetX)/c.clientWidth*(hi-lo);
lo+=s;hi+=s;drag=e.offsetX;draw();return}
const r=found(e);at.textContent=r?D.n[r[0]][0]+': '+r[2]+' us, from '+r[1]+' us on':'\\u00a0'};
c.onmousedown=e=>{drag=e.offsetX};window.onmouseup=()=>{drag=null};
c.onwheel=e=>{e.preventDefault();const t=lo+e.offsetX/c.clientWidth*(hi-lo),k=e.deltaY>0?1.25:.8;
lo=t-(t-lo)*k;hi=t+(hi-t)*k;if(hi-lo>D.w){lo=0;hi=D.w}draw()};
document.querySelectorAll('tr[data-n]').forEach(r=>r.onclick=()=>{const n=r.dataset.n;
document.querySelectorAll('tr.on').forEach(x=>x.classList.remove('on'));
on=on===n?'':n;if(on)r.classList.add('on');draw()});
window.onresize=draw;draw();
"""
