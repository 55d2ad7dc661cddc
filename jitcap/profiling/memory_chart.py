"""Memory in the page of a profile: bytes over time, and what holds them at each. Memory -> HTML.

Drawn under the timeline, over the same stretch of time; a click says what is alive there. Without
the script what was alive at the peak is there to read.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from eager.base.recorder import Work
from jitcap.profiling.memory import KINDS, Holder, Life, Memory

SAMPLES: Final = 4000  # of bytes over time
LIVES: Final = 8000  # the largest, of which the page can say when they were there
COLOURS: Final = ("#1f5fa8", "#2e8b57", "#c4711d")  # as KINDS


def section(memory: Memory) -> str:
    """The chart, and what was alive at the peak."""
    legend = " ".join(
        f'<span style="color:{colour}">&#9632;</span> {kind}'
        for kind, colour in zip(KINDS, COLOURS, strict=True)
    )
    return (
        f"<h2>Memory</h2><p>{legend}</p><canvas id=m></canvas><p id=mt>&nbsp;</p>"
        f"<pre id=mh>{html.escape(memory.table())}</pre>"
    )


def data(memory: Memory, wall: float) -> dict[str, Any]:
    """Data for the script: `t` times and `s` bytes by kind at them, `h` holders, `l` lives as
    [begin, end, holders], `peak` the time of the peak. `wall`: microseconds of the profile."""
    samples = [*_decimated(memory.samples)]
    numbers: dict[Holder, int] = {}
    lives = []
    for life in sorted(memory.lives, key=lambda x: -x.nbytes)[:LIVES]:
        held = [numbers.setdefault(h, len(numbers)) for h in _holders(life)]
        lives.append([round(life.start, 2), round(min(life.end, wall), 2), held])
    return {
        "t": [round(us, 2) for us, _ in samples],
        "s": [[sums[kind] for kind in KINDS] for _, sums in samples],
        "h": [*numbers], "l": lives, "k": KINDS, "c": COLOURS, "peak": round(memory.peak[0], 2),
    }  # fmt: skip


def _holders(life: Life) -> Iterator[Holder]:
    if isinstance(life.holder, Work):
        for t in life.holder.temporaries:
            yield Holder(t.nbytes, life.kind, t.what, t.place)
    else:
        yield life.holder


Sample = tuple[float, Any]


def _decimated(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Samples: of many the first, the last, and those in between with most bytes."""
    step = -(-len(samples) // SAMPLES)
    if step <= 1:
        yield from samples
        return
    for i in range(0, len(samples), step):
        yield max(samples[i : i + step], key=lambda sample: sum(sample[1].values()))
    yield samples[-1]


def script(memory: Memory, wall: float) -> str:
    """The script behind that of the page, with which it shares the stretch of time."""
    text = json.dumps(data(memory, wall), separators=(",", ":")).replace("<", "\\u003c")
    return f"const M={text};{_SCRIPT}"


_SCRIPT: Final = """
const m=document.getElementById('m'),mg=m.getContext('2d'),mt=document.getElementById('mt'),
mh=document.getElementById('mh'),sum=a=>a.reduce((x,y)=>x+y,0),
most=Math.max(1,...M.s.map(sum)),
bytes=n=>{const u=['B','KiB','MiB','GiB'];let k=0;while(n>=1024&&k<3){n/=1024;k++}
return (k?n.toFixed(2):n)+' '+u[k]};
let chosen=M.peak;
// The last sample that is not after a time; before the first there is nothing.
function sampleAt(t){let a=0,b=M.t.length;while(a<b){const k=(a+b)>>1;if(M.t[k]<=t)a=k+1;else b=k}
return a?M.s[a-1]:M.k.map(()=>0)}
function drawMemory(){m.width=m.clientWidth;m.height=m.clientHeight;const h=m.height-16;
const Y=n=>h+14-n/most*h;
for(let k=M.k.length-1;k>=0;k--){mg.fillStyle=M.c[k];mg.beginPath();mg.moveTo(X(0),Y(0));
let y=Y(0);M.t.forEach((t,i)=>{const x=X(t);mg.lineTo(x,y);y=Y(sum(M.s[i].slice(0,k+1)));
mg.lineTo(x,y)});mg.lineTo(X(D.w),y);mg.lineTo(X(D.w),Y(0));mg.fill()}
mg.fillStyle='#888';mg.font='11px system-ui';mg.fillText(bytes(most),3,11);
mg.fillRect(X(chosen),0,1,m.height)}
const told=t=>{const s=sampleAt(t);
return bytes(sum(s))+' at '+t.toFixed(1)+' us: '+M.k.map((k,i)=>k+' '+bytes(s[i])).join(', ')};
function tell(t){const alive=new Map();
for(const [a,b,held] of M.l)if(a<=t&&t<b)for(const i of held)alive.set(i,(alive.get(i)||0)+1);
const rows=[...alive].map(([i,n])=>[M.h[i][0]*n,M.h[i],n]).sort((a,b)=>b[0]-a[0]);
const lines=rows.slice(0,30).map(([n,[,kind,what,place],times])=>
n.toLocaleString('en').padStart(14)+' '+kind.padEnd(12)+' '+what+(times>1?', '+times+' times':'')+
(place?'  '+place.split('/').pop():''));
const rest=sum(sampleAt(t))-sum(rows.slice(0,30).map(r=>r[0]));
if(rest>0)lines.push(rest.toLocaleString('en').padStart(14)+' in others');
mh.textContent=[told(t),...lines].join('\\n')}
const timeAt=e=>Math.max(0,Math.min(D.w,lo+e.offsetX/m.clientWidth*(hi-lo)));
m.onmousemove=e=>{mt.textContent=told(timeAt(e))};
m.onclick=e=>{chosen=timeAt(e);tell(chosen);drawMemory()};
m.onwheel=c.onwheel;also.push(drawMemory);draw();
"""
