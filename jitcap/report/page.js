// The page of an explanation. The data block (see contents.py) -> panes of lines that are linked by
// the user's line, pictures, a diff for each rewrite. The first part is functions of data alone,
// which tests run without a browser; the second needs a document.
"use strict";

const ROW = 18; // pixels of a line, as in page.css
const EXTRA = 12; // lines rendered above and below those in sight
const GAP = 14; // pixels between boxes of a picture

// ------------------------------------------------------------------------------- lines and links

// The lines [first, end) that are rendered when `height` pixels from `top` on are in sight.
function visible(top, height, count) {
  const first = Math.max(0, Math.floor(top / ROW) - EXTRA);
  return [first, Math.min(count, Math.ceil((top + height) / ROW) + EXTRA)];
}

// The places of a line, by runs [first line, last line, places], which are sorted and disjoint.
function placesAt(links, line) {
  let low = 0;
  let high = links.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const [first, last, places] = links[middle];
    if (line < first) high = middle - 1;
    else if (line > last) low = middle + 1;
    else return places;
  }
  return [];
}

// The runs of lines [first, last] that come from one of a set of places.
function runsOf(links, places) {
  if (!places.size) return [];
  return links.filter((run) => run[2].some((p) => places.has(p))).map(([a, b]) => [a, b]);
}

// The line that is linked next to `line`, in a direction (1, -1); `line` itself if there is none.
function nextLinked(links, line, step) {
  const ahead = links.filter((run) => (step > 0 ? run[0] > line : run[1] < line));
  if (!ahead.length) return line;
  return step > 0 ? ahead[0][0] : ahead[ahead.length - 1][0];
}

// The lines that hold a text, whatever its case.
function search(lines, text) {
  const wanted = text.toLowerCase();
  const found = [];
  if (wanted) lines.forEach((line, i) => line.toLowerCase().includes(wanted) && found.push(i));
  return found;
}

const WORDS = {
  python: "def return for in range if else elif while import from as class and or not is None True False",
  cpp: "static const constexpr auto int void struct for if else return using namespace typedef inline double float",
};
const TOKEN = {
  python: /(#.*$)|("[^"]*"|'[^']*')|\b(\d[\w.]*)|\b([A-Za-z_]\w*)/g,
  cpp: /(\/\/.*$|^#\w+)|("[^"]*")|\b(\d[\w.]*)|\b([A-Za-z_]\w*)/g,
};

// The coloured parts of a line: [kind, start, end].
function tokens(line, language) {
  const pattern = TOKEN[language];
  if (!pattern) return [];
  const words = WORDS[language].split(" ");
  const found = [];
  for (const match of line.matchAll(pattern)) {
    const kind = match[1] ? "comment" : match[2] ? "string" : match[3] ? "number" : "keyword";
    if (kind === "keyword" && !words.includes(match[4])) continue;
    found.push([kind, match.index, match.index + match[0].length]);
  }
  return found;
}

// ------------------------------------------------------------------------------- differences

// The shortest script from lines `a` to lines `b`: rows [sign, text], sign " ", "-" or "+". Where
// more than `most` lines change, what lies between the first and the last is taken out and put in.
function diff(a, b, most = 800) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let same = 0;
  const room = Math.min(a.length, b.length) - start;
  while (same < room && a[a.length - 1 - same] === b[b.length - 1 - same]) same++;
  const equal = (line) => [" ", line];
  return [
    ...a.slice(0, start).map(equal),
    ...shortest(a.slice(start, a.length - same), b.slice(start, b.length - same), most),
    ...a.slice(a.length - same).map(equal),
  ];
}

// Greedy search (Myers): how far each diagonal leads with one more change at a time.
function shortest(a, b, most) {
  const far = new Map([[1, 0]]); // diagonal (lines of a less lines of b) -> lines of a
  const isDown = (k, d) => k === -d || (k !== d && far.get(k - 1) < far.get(k + 1));
  const steps = []; // for each number of changes: diagonal -> [diagonal before, lines of a there]
  for (let d = 0; d <= Math.min(most, a.length + b.length); d++) {
    const step = new Map();
    steps.push(step);
    for (let k = -d; k <= d; k += 2) {
      const before = isDown(k, d) ? k + 1 : k - 1;
      step.set(k, [before, far.get(before)]);
      let x = far.get(before) + (before < k ? 1 : 0);
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      far.set(k, x);
      if (x >= a.length && x - k >= b.length) return retrace(steps, a, b);
    }
  }
  return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
}

function retrace(steps, a, b) {
  const rows = [];
  let x = a.length;
  let y = b.length;
  for (let d = steps.length - 1; d >= 0; d--) {
    const [before, from] = steps[d].get(x - y);
    while (x > from && y > from - before) rows.push([" ", a[(y--, --x)]]);
    if (d) rows.push(x === from ? ["+", b[y - 1]] : ["-", a[x - 1]]);
    x = from;
    y = from - before;
  }
  return rows.reverse();
}

// The rows of a difference with `near` equal lines around each change; where some are left out, a
// row ["@", how many].
function hunks(rows, near = 3) {
  const kept = new Set();
  rows.forEach(([sign], i) => {
    if (sign !== " ") for (let j = i - near; j <= i + near; j++) kept.add(j);
  });
  const shown = [];
  let left = 0;
  rows.forEach((row, i) => {
    if (!kept.has(i)) {
      left++;
      return;
    }
    if (left) shown.push(["@", `… ${left} lines`]);
    left = 0;
    shown.push(row);
  });
  if (left) shown.push(["@", `… ${left} lines`]);
  return shown;
}

// ------------------------------------------------------------------------------- the graph

// The items of a group of a graph: groups inside it, and nodes that are in none of them. A group is
// [label, kind, first node, end, groups]; a node is its number.
function itemsOf(group) {
  const items = [];
  let at = group[2];
  for (const inner of group[4]) {
    for (; at < inner[2]; at++) items.push(at);
    items.push(inner);
    at = inner[3];
  }
  for (; at < group[3]; at++) items.push(at);
  return items;
}

// The edges [from, to] between items of a group, of those between the nodes in them.
function edgesOf(graph, group, items) {
  const owner = new Map();
  items.forEach((item, i) => {
    if (typeof item === "number") owner.set(item, i);
    else for (let n = item[2]; n < item[3]; n++) owner.set(n, i);
  });
  const seen = new Set();
  for (const [node, to] of owner) {
    for (const argument of graph.nodes[node][4]) {
      const from = owner.get(argument);
      if (from !== undefined && from !== to) seen.add(from * items.length + to);
    }
  }
  return [...seen].map((key) => [Math.floor(key / items.length), key % items.length]);
}

// Boxes {w, h} and edges from lower to higher numbers -> each box gets x and y, in rows by the
// longest way to it, in each row by where its neighbours are. The size of the whole.
function layers(boxes, edges) {
  const rank = boxes.map(() => 0);
  const parents = boxes.map(() => []);
  const children = boxes.map(() => []);
  for (const [from, to] of [...edges].sort((a, b) => a[1] - b[1])) {
    rank[to] = Math.max(rank[to], rank[from] + 1);
    parents[to].push(from);
    children[from].push(to);
  }
  // What starts late stands just above its first reader.
  for (let i = boxes.length - 1; i >= 0; i--) {
    if (!parents[i].length && children[i].length)
      rank[i] = Math.min(...children[i].map((c) => rank[c])) - 1;
  }
  const rows = [];
  rank.forEach((r, i) => (rows[r] ??= []).push(i));
  place(boxes, rows);
  for (const near of [parents, children, parents]) {
    const order = near === children ? [...rows].reverse() : rows;
    for (const row of order) {
      if (!row) continue;
      const middle = new Map(row.map((i) => [i, average(near[i].map((j) => boxes[j].x + boxes[j].w / 2))
        ?? boxes[i].x + boxes[i].w / 2]));
      row.sort((i, j) => middle.get(i) - middle.get(j) || i - j);
    }
    place(boxes, rows);
  }
  const w = Math.max(0, ...boxes.map((b) => b.x + b.w));
  return { w, h: Math.max(0, ...boxes.map((b) => b.y + b.h)) };
}

function place(boxes, rows) {
  const widths = rows.map((row) => row.reduce((sum, i) => sum + boxes[i].w + GAP, -GAP));
  const widest = Math.max(0, ...widths.filter((w) => w !== undefined));
  let y = 0;
  rows.forEach((row, r) => {
    let x = (widest - widths[r]) / 2;
    for (const i of row) {
      boxes[i].x = x;
      boxes[i].y = y;
      x += boxes[i].w + GAP;
    }
    y += Math.max(...row.map((i) => boxes[i].h)) + 2 * GAP;
  });
}

function average(values) {
  return values.length ? values.reduce((a, b) => a + b) / values.length : undefined;
}

const HEAD = 20; // pixels above the items of an open group

// The boxes of a group that is open, with those inside it that are: {w, h, boxes, edges}. `open` are
// the keys of open groups, `key` is this one's.
function scene(graphs, number, group, open, key) {
  const graph = graphs[number];
  const items = itemsOf(group);
  const edges = edgesOf(graph, group, items);
  const boxes = items.map((item) => boxOf(graphs, number, item, open, key));
  const size = layers(boxes, edges);
  return { ...size, boxes, edges };
}

function boxOf(graphs, number, item, open, outer) {
  const node = typeof item === "number" ? graphs[number].nodes[item] : null;
  const key = `${outer}/${number}:${node ? item : `${item[2]}-${item[3]}${item[1]}`}`;
  const bodies = node ? node[5] : [];
  const foldable = !node || bodies.length > 0;
  const label = node ? node[0] : item[0];
  const about = node ? node[2] : "";
  const box = { key, number, item, node, label, about, foldable, kind: node ? node[1] : item[1] };
  const long = label.length + (foldable ? 3 : 0); // with its sign
  box.w = Math.max(60, Math.min(300, 7 * Math.max(long, 0.85 * about.length) + 16));
  box.h = about ? 34 : 24;
  if (!foldable || !open.has(key)) return box;
  const inner = node
    ? bodies.map((body) => scene(graphs, body, graphs[body].groups, open, key))
    : [scene(graphs, number, item, open, key)];
  let x = GAP;
  for (const each of inner) {
    each.x = x;
    each.y = HEAD;
    x += each.w + GAP;
  }
  box.inner = inner;
  box.w = Math.max(x, 7 * long + 16);
  box.h = HEAD + Math.max(...inner.map((each) => each.h)) + GAP;
  return box;
}

// The numbers of a graph and of those inside its nodes.
function within(graphs, root) {
  const found = new Set([root]);
  for (const number of found) graphs[number].nodes.forEach((node) => node[5].forEach((b) => found.add(b)));
  return [...found];
}

// The nodes whose name, op or type, or what `wordsOf` says of one, holds a text: [graph, node], from
// the graph `root` on.
function searchGraphs(graphs, root, text, wordsOf) {
  const wanted = text.toLowerCase();
  const found = [];
  if (!wanted) return found;
  for (const number of within(graphs, root)) {
    graphs[number].nodes.forEach((node, n) => {
      const words = `${node[0]} ${node[1]} ${node[2]} ${wordsOf(node)}`;
      if (words.toLowerCase().includes(wanted)) found.push([number, n]);
    });
  }
  return found;
}

// The keys of the boxes from the graph `root` to a node, all but the last of which are to be open
// for it to be seen; null if none leads there.
function wayTo(graphs, root, target, node, key = "") {
  const walk = (number, group, outer) => {
    for (const item of itemsOf(group)) {
      const isNode = typeof item === "number";
      const own = `${outer}/${number}:${isNode ? item : `${item[2]}-${item[3]}${item[1]}`}`;
      if (isNode) {
        if (number === target && item === node) return [own];
        for (const body of graphs[number].nodes[item][5]) {
          const rest = walk(body, graphs[body].groups, own);
          if (rest) return [own, ...rest];
        }
      } else if (number !== target || (item[2] <= node && node < item[3])) {
        const rest = walk(number, item, own);
        if (rest) return [own, ...rest];
      }
    }
    return null;
  };
  return walk(root, graphs[root].groups, key);
}

// ------------------------------------------------------------------------------- memory over time

// Bytes that are taken at each step, of blocks [name, offset, bytes, first, last, places].
function taken(blocks, steps) {
  const change = new Array(steps + 1).fill(0);
  for (const [, , bytes, first, last] of blocks) {
    change[first] += bytes;
    change[last + 1] -= bytes;
  }
  let now = 0;
  return change.slice(0, steps).map((by) => (now += by));
}

// The block that lies at a step and a byte, or undefined.
function blockAt(blocks, step, byte) {
  return blocks.find(([, offset, bytes, first, last]) =>
    first <= step && step <= last && offset <= byte && byte < offset + bytes);
}

// A number of bytes for people.
function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1000;
    unit++;
  }
  return `${unit ? bytes.toFixed(bytes < 10 ? 2 : 1) : bytes} ${units[unit]}`;
}

if (typeof module === "object") {
  module.exports = {
    visible, placesAt, runsOf, nextLinked, search, tokens, diff, hunks, itemsOf, edgesOf, layers,
    scene, searchGraphs, wayTo, taken, blockAt, size,
  };
}

// ------------------------------------------------------------------------------- panes

function element(tag, className, parent, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

// The value of a colour of page.css.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

// A canvas in its own pixels: [context, width, height].
function prepared(canvas) {
  const { clientWidth: w, clientHeight: h } = canvas;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = w * ratio;
  canvas.height = h * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, w, h);
  return [context, w, h];
}

// Colours of words without an element for each, where the browser has that.
const PAINT = {};
if (typeof Highlight === "function") {
  for (const kind of ["comment", "keyword", "string", "number", "found"]) {
    CSS.highlights.set(kind, (PAINT[kind] = new Highlight()));
  }
}

// Lines of text of which only those in sight are in the document. A text is {name, lines(), links,
// language, signs}: `signs` has "+", "-" or "@" for lines of a difference.
class Pane {
  constructor(page, parent, choices = [], className = "") {
    this.page = page;
    this.host = element("div", `pane ${className}`, parent);
    const bar = element("div", "bar", this.host);
    this.choice = element("select", "", bar);
    this.count = element("span", "count", bar);
    const frame = element("div", "frame", this.host);
    this.scroller = element("div", "lines", frame);
    this.scroller.tabIndex = 0;
    this.all = element("div", "all", this.scroller);
    this.rows = element("div", "rows", this.all);
    this.strip = element("canvas", "strip", frame);
    this.painted = [];
    this.current = -1;
    this.found = [];
    this.chosen = () => {};
    this.picked = () => {};
    this.offer(choices);
    this.scroller.addEventListener("scroll", () => requestAnimationFrame(() => this.render()));
    this.scroller.addEventListener("focus", () => page.activate(this));
    this.rows.addEventListener("mouseover", (event) => page.link("hover", this.under(event)));
    this.rows.addEventListener("mouseleave", () => page.link("hover", []));
    this.rows.addEventListener("click", (event) => this.pick(this.lineUnder(event)));
    this.strip.addEventListener("click", (event) => {
      this.reveal(Math.floor((event.offsetY / this.strip.clientHeight) * this.lines.length));
    });
    this.choice.addEventListener("change", () => {
      this.show(this.choices[this.choice.selectedIndex]);
      this.chosen();
    });
    page.panes.push(this);
  }

  // The texts that may be chosen here.
  offer(choices) {
    this.choices = choices;
    this.choice.replaceChildren(...choices.map((text) => new Option(text.name)));
    this.choice.hidden = choices.length < 2;
  }

  show(text) {
    this.text = text;
    this.lines = text.lines();
    this.links = text.links;
    this.runs = runsOf(text.links, this.page.marks.pinned);
    this.choice.selectedIndex = this.choices.indexOf(text);
    this.current = -1;
    this.all.style.height = `${this.lines.length * ROW}px`;
    this.scroller.scrollTop = 0;
    this.search(this.page.wanted);
  }

  under(event) {
    const line = this.lineUnder(event);
    return line < 0 ? [] : placesAt(this.links, line);
  }

  lineUnder(event) {
    const row = event.target.closest(".row");
    return row ? this.first + [...this.rows.children].indexOf(row) : -1;
  }

  // Make a line the current one, and mark all that comes from its places.
  pick(line) {
    if (line < 0 || line >= this.lines.length) return;
    this.current = line;
    this.page.activate(this);
    this.page.link("pinned", placesAt(this.links, line), this);
    this.picked(line);
    this.render();
  }

  move(step) {
    this.pick(Math.max(0, Math.min(this.lines.length - 1, this.current + step)));
    this.reveal(this.current);
  }

  jump(step) {
    this.pick(nextLinked(this.links, this.current, step));
    this.reveal(this.current);
  }

  // Scroll so that a line is in sight.
  reveal(line) {
    const { scrollTop: top, clientHeight: height } = this.scroller;
    const at = line * ROW;
    if (at < top || at + ROW > top + height) this.scroller.scrollTop = at - height / 3;
    this.render();
  }

  search(wanted) {
    this.found = search(this.lines, wanted);
    this.say();
    this.render();
  }

  // The next line that was found, in a direction.
  nextFound(step) {
    const { found, current } = this;
    const ahead = step > 0 ? found.find((i) => i > current) : found.findLast((i) => i < current);
    const line = ahead ?? (step > 0 ? found[0] : found[found.length - 1]);
    if (line === undefined) return;
    this.pick(line);
    this.reveal(line);
  }

  say() {
    const marked = this.runs.reduce((sum, [a, b]) => sum + b - a + 1, 0);
    const parts = [`${this.lines.length} lines`];
    if (this.page.wanted) parts.unshift(`${this.found.length} found`);
    if (marked) parts.unshift(`${marked} marked`);
    this.count.textContent = parts.join(" · ");
  }

  // What is marked has changed; `reveals` says if its first line is to be in sight.
  mark(reveals) {
    if (!this.text) return;
    this.runs = runsOf(this.links, this.page.marks.pinned);
    this.say();
    if (reveals && this.runs.length) {
      const { scrollTop: top, clientHeight: height } = this.scroller;
      const inSight = ([a, b]) => (b + 1) * ROW > top && a * ROW < top + height;
      if (!this.runs.some(inSight)) this.reveal(this.runs[0][0]);
    }
    this.render();
  }

  classOf(line) {
    const { hover, pinned } = this.page.marks;
    const places = placesAt(this.links, line);
    const names = ["row"];
    if (places.length) names.push("linked");
    const sign = this.text.signs?.[line];
    if (sign && sign !== " ") names.push({ "+": "add", "-": "del", "@": "head" }[sign]);
    if (places.some((p) => pinned.has(p))) names.push("pinned");
    else if (places.some((p) => hover.has(p))) names.push("hover");
    if (line === this.current) names.push("current");
    return names.join(" ");
  }

  render() {
    if (!this.text || !this.scroller.clientHeight) return;
    const { scrollTop: top, clientHeight: height } = this.scroller;
    const [first, end] = visible(top, height, this.lines.length);
    while (this.rows.children.length > end - first) this.rows.lastChild.remove();
    while (this.rows.children.length < end - first) element("div", "row", this.rows, "");
    this.first = first;
    this.rows.style.top = `${first * ROW}px`;
    for (let line = first; line < end; line++) {
      const row = this.rows.children[line - first];
      if (row.textContent !== this.lines[line]) row.textContent = this.lines[line];
      row.className = this.classOf(line);
      row.dataset.n = this.text.numbers ? this.text.numbers(line) : line + 1;
    }
    this.paint(first, end);
    this.drawStrip();
  }

  paint(first, end) {
    if (!PAINT.found) return;
    for (const [kind, range] of this.painted) PAINT[kind].delete(range);
    this.painted = [];
    const wanted = this.page.wanted.toLowerCase();
    for (let line = first; line < end; line++) {
      const node = this.rows.children[line - first].firstChild;
      if (!node) continue;
      const parts = tokens(this.lines[line], this.text.language);
      const text = this.lines[line].toLowerCase();
      for (let at = wanted ? text.indexOf(wanted) : -1; at >= 0; at = text.indexOf(wanted, at + 1)) {
        parts.push(["found", at, at + wanted.length]);
      }
      for (const [kind, startOffset, endOffset] of parts) {
        const ends = { startContainer: node, startOffset, endContainer: node, endOffset };
        const range = new StaticRange(ends);
        PAINT[kind].add(range);
        this.painted.push([kind, range]);
      }
    }
  }

  // Where in the whole text the marked and the found lines are.
  drawStrip() {
    const [context, w, h] = prepared(this.strip);
    const scale = h / Math.max(1, this.lines.length);
    const bar = (a, b) => context.fillRect(0, a * scale, w, Math.max(2, (b - a + 1) * scale));
    context.fillStyle = colour("found");
    for (const line of this.found) bar(line, line);
    context.fillStyle = colour("accent");
    for (const [a, b] of this.runs) bar(a, b);
    const { scrollTop: top, clientHeight: height } = this.scroller;
    context.strokeStyle = colour("dim");
    context.strokeRect(0.5, (top / ROW) * scale, w - 1, (height / ROW) * scale);
  }
}

// ------------------------------------------------------------------------------- pictures

// A canvas that is moved with the mouse: `draw(context, w, h)` draws what `at` shows.
class Canvas {
  constructor(parent, draw) {
    this.at = { x: 0, y: 0, scale: 1 };
    const frame = element("div", "frame", parent);
    this.canvas = element("canvas", "", frame);
    this.canvas.tabIndex = 0;
    this.draw = draw;
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const by = Math.exp(-event.deltaY / 400);
      const next = Math.min(4, Math.max(0.02, this.at.scale * by));
      const { offsetX: x, offsetY: y } = event;
      this.at.x = x - ((x - this.at.x) * next) / this.at.scale;
      this.at.y = y - ((y - this.at.y) * next) / this.at.scale;
      this.at.scale = next;
      this.redraw();
    });
    this.canvas.addEventListener("pointerdown", (event) => (this.from = [event.x, event.y]));
    this.canvas.addEventListener("pointermove", (event) => {
      if (!event.buttons || !this.from) return;
      this.at.x += event.movementX;
      this.at.y += event.movementY;
      this.redraw();
    });
  }

  // True if the pointer was moved since it went down: that was no click.
  wasMoved(event) {
    return this.from && Math.hypot(event.x - this.from[0], event.y - this.from[1]) > 4;
  }

  // The point of the picture under the pointer.
  point(event) {
    const { x, y, scale } = this.at;
    return [(event.offsetX - x) / scale, (event.offsetY - y) / scale];
  }

  redraw() {
    if (!this.canvas.clientHeight) return;
    const [context, w, h] = prepared(this.canvas);
    this.draw(context, w, h);
  }
}

// The graph of a stage: groups of nodes by module, by function and by repeated layer, which fold.
class Picture {
  constructor(page, section) {
    this.page = page;
    const column = element("div", "canvas", section);
    const bar = element("div", "bar", column);
    this.choice = element("select", "", bar);
    const fold = element("button", "", bar, "fold all");
    this.found = element("span", "count", bar);
    this.canvas = new Canvas(column, (context, w, h) => this.draw(context, w, h));
    this.details = new Pane(page, section, [], "narrow");
    fold.addEventListener("click", () => this.start());
    this.choice.addEventListener("change", () => this.choose(this.choice.selectedIndex));
    const { canvas } = this.canvas;
    canvas.addEventListener("click", (event) => {
      const box = this.canvas.wasMoved(event) ? null : this.under(event);
      if (box) this.select(box, this.canvas.point(event)[0] < box.left + 20);
    });
    canvas.addEventListener("dblclick", (event) => {
      const box = this.under(event);
      if (box) this.toggle(box);
    });
  }

  // A part of the page's data was chosen: its pictures.
  use(part) {
    this.part = part;
    this.graphs = part.graphs;
    this.choice.replaceChildren(...part.pictures.map(([name]) => new Option(name)));
    this.choice.selectedIndex = part.pictures.length - 1;
    this.choose(part.pictures.length - 1);
  }

  choose(index) {
    this.root = this.part.pictures[index]?.[1];
    this.start();
  }

  start() {
    this.open = new Set();
    this.selected = null;
    this.matches = [];
    this.flat = [];
    this.lay();
    this.fitted = false;
    this.details.show({ name: "", lines: () => ["click: a node and its line", "double click: fold and unfold"], links: [] });
    this.canvas.redraw();
  }

  lay() {
    if (this.root === undefined) return;
    this.scene = scene(this.graphs, this.root, this.graphs[this.root].groups, this.open, "");
    this.flat = [];
    const walk = (each, x, y) => {
      for (const box of each.boxes) {
        box.left = x + box.x;
        box.top = y + box.y;
        this.flat.push(box);
        for (const inner of box.inner || []) walk(inner, box.left + inner.x, box.top + inner.y);
      }
    };
    walk(this.scene, 0, 0);
  }

  under(event) {
    const [x, y] = this.canvas.point(event);
    const isIn = (b) => b.left <= x && x < b.left + b.w && b.top <= y && y < b.top + b.h;
    return this.flat.findLast(isIn);
  }

  toggle(box) {
    if (!box.foldable) return;
    if (!this.open.delete(box.key)) this.open.add(box.key);
    const before = [box.left, box.top];
    this.lay();
    const after = this.flat.find((b) => b.key === box.key);
    this.canvas.at.x += (before[0] - after.left) * this.canvas.at.scale;
    this.canvas.at.y += (before[1] - after.top) * this.canvas.at.scale;
    this.canvas.redraw();
  }

  select(box, toggles = false) {
    this.selected = box.key;
    this.page.link("pinned", this.placesOf(box), this);
    const { lines, links } = this.about(box);
    this.details.show({ name: "", lines: () => lines, links });
    if (toggles) this.toggle(box);
    this.canvas.redraw();
  }

  nodesOf(box) {
    const nodes = this.graphs[box.number].nodes;
    if (box.node) return [box.node, ...box.node[5].flatMap((b) => this.graphs[b].nodes)];
    return nodes.slice(box.item[2], box.item[3]);
  }

  // The paths of the modules that made a node; of a call of a shared body those that it stands for.
  modulesOf(node) {
    return node[6].map((module) => this.part.modules[module]);
  }

  placesOf(box) {
    return [...new Set(this.nodesOf(box).map((node) => node[3]).filter((p) => p >= 0))];
  }

  // Lines about a box, and their links.
  about(box) {
    const graph = this.graphs[box.number];
    const lines = [];
    const links = [];
    const add = (text, place = -1) => {
      if (place >= 0) links.push([lines.length, lines.length, [place]]);
      lines.push(text);
    };
    const name = (a) => (a >= 0 ? graph.nodes[a][0] : graph.inputs[-1 - a][0]);
    if (box.node) {
      const [, op, type, place, args, bodies] = box.node;
      add(`${box.label} = ${op}`);
      add(type);
      if (place >= 0) add(this.page.lineOf(place), place);
      for (const module of this.modulesOf(box.node)) add(`in ${module}`);
      add("");
      for (const a of args) {
        const from = a >= 0 ? graph.nodes[a] : graph.inputs[-1 - a];
        add(`reads ${name(a)}: ${a >= 0 ? from[2] : from[1]}`, a >= 0 ? from[3] : -1);
      }
      graph.nodes.forEach((n) => n[4].includes(box.item) && add(`read by ${n[0]}: ${n[1]}`, n[3]));
      for (const b of bodies) add(`runs ${this.graphs[b].name}: ${this.graphs[b].nodes.length} operations`);
    } else {
      add(`${box.label}: ${box.item[3] - box.item[2]} operations`);
      const counts = new Map();
      for (const n of this.nodesOf(box)) counts.set(n[1], (counts.get(n[1]) || 0) + 1);
      for (const [op, count] of [...counts].sort((a, b) => b[1] - a[1])) add(`${String(count).padStart(6)}  ${op}`);
    }
    return { lines, links };
  }

  search(wanted) {
    if (this.root === undefined) return;
    const wordsOf = (node) => `${this.page.lineOf(node[3])} ${this.modulesOf(node).join(" ")}`;
    this.matches = searchGraphs(this.graphs, this.root, wanted, wordsOf);
    this.found.textContent = wanted ? `${this.matches.length} found` : "";
    this.match = -1;
    this.canvas.redraw();
  }

  nextFound(step) {
    const count = this.matches.length;
    if (!count) return;
    this.match = (this.match + step + count) % count;
    const way = wayTo(this.graphs, this.root, ...this.matches[this.match]);
    this.found.textContent = `${this.match + 1} of ${count}`;
    for (const key of way.slice(0, -1)) this.open.add(key);
    this.lay();
    this.show(this.flat.find((b) => b.key === way[way.length - 1]));
  }

  // The box next to the selected one, in the order of the program.
  move(step) {
    const at = this.flat.findIndex((b) => b.key === this.selected);
    const next = this.flat[Math.max(0, Math.min(this.flat.length - 1, at + step))];
    if (next) this.show(next);
  }

  // Select a box, and bring it into the middle.
  show(box) {
    const { clientWidth: w, clientHeight: h } = this.canvas.canvas;
    const { at } = this.canvas;
    at.scale = Math.max(at.scale, 0.6);
    at.x = w / 2 - (box.left + box.w / 2) * at.scale;
    at.y = h / 2 - (box.top + Math.min(box.h, h) / 2) * at.scale;
    this.select(box);
  }

  enter() {
    const box = this.flat.find((b) => b.key === this.selected);
    if (box) this.toggle(box);
  }

  mark() {
    this.canvas.redraw();
  }

  draw(context, w, h) {
    if (!this.scene) return;
    const { at } = this.canvas;
    if (!this.fitted) {
      at.scale = Math.min(1, Math.max(0.15, Math.min((w - 40) / this.scene.w, (h - 40) / this.scene.h)));
      at.x = Math.max(20, (w - this.scene.w * at.scale) / 2);
      at.y = 20;
      this.fitted = true;
    }
    context.translate(at.x, at.y);
    context.scale(at.scale, at.scale);
    this.sight = [-at.x / at.scale, -at.y / at.scale, (w - at.x) / at.scale, (h - at.y) / at.scale];
    const names = ["ink", "dim", "rule", "edge", "accent", "box", "group", "repeat", "product", "loop", "found"];
    this.colours = Object.fromEntries(names.map((name) => [name, colour(name)]));
    this.matched = new Set(this.matches.map(([g, n]) => `${g}:${n}`));
    this.drawScene(context, this.scene, 0, 0);
  }

  drawScene(context, each, x, y) {
    const { colours } = this;
    for (const [from, to] of each.edges) {
      const [a, b] = [each.boxes[from], each.boxes[to]];
      const [x0, y0, x1, y1] = [x + a.x + a.w / 2, y + a.y + a.h, x + b.x + b.w / 2, y + b.y];
      if (y1 < this.sight[1] || y0 > this.sight[3]) continue;
      const isOf = a.key === this.selected || b.key === this.selected;
      context.strokeStyle = isOf ? colours.accent : colours.edge;
      context.lineWidth = isOf ? 2 : 1;
      const bend = Math.min(40, (y1 - y0) / 2);
      context.beginPath();
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
      context.stroke();
    }
    for (const box of each.boxes) this.drawBox(context, box, x + box.x, y + box.y);
  }

  drawBox(context, box, x, y) {
    const { colours, sight } = this;
    if (x > sight[2] || x + box.w < sight[0] || y > sight[3] || y + box.h < sight[1]) return;
    const kind = box.node ? "box" : box.kind === "repeat" ? "repeat" : "group";
    const isHeavy = /^(dot|conv|linear|attention|bmm)/.test(box.kind);
    const isLoop = box.node && box.node[5].length;
    const isPinned = this.page.marks.pinned.size && this.placesOf(box).some((p) => this.page.marks.pinned.has(p));
    const isFound = this.matches.length && box.node && this.matched.has(`${box.number}:${box.item}`);
    context.fillStyle = isLoop ? colours.loop : isHeavy ? colours.product : colours[kind];
    context.strokeStyle = box.key === this.selected || isPinned ? colours.accent : colours.rule;
    context.lineWidth = box.key === this.selected ? 3 : isPinned ? 2 : 1;
    context.beginPath();
    context.roundRect(x, y, box.w, box.h, 5);
    context.fill();
    if (isFound) {
      context.fillStyle = colours.found;
      context.fill();
    }
    context.stroke();
    for (const inner of box.inner || []) this.drawScene(context, inner, x + inner.x, y + inner.y);
    if (this.canvas.at.scale < 0.3) return;
    context.save();
    context.beginPath();
    context.rect(x, y, box.w, box.h);
    context.clip();
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = colours.ink;
    const sign = box.foldable ? (box.inner ? "− " : "+ ") : "";
    context.fillText(sign + box.label, x + 8, y + 15);
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = colours.dim;
    if (box.about && !box.inner) context.fillText(box.about, x + 8, y + 28);
    context.restore();
  }
}

// Where temporaries lie (upwards) while the items of a program run (along).
class Memory {
  constructor(page, section) {
    this.page = page;
    const column = element("div", "canvas", section);
    this.canvas = new Canvas(column, (context, w, h) => this.draw(context, w, h));
    this.canvas.canvas.style.cursor = "crosshair";
    this.canvas.canvas.addEventListener("click", (event) => {
      if (!this.canvas.wasMoved(event)) this.choose(...this.spot(event), true);
    });
    this.canvas.canvas.addEventListener("mousemove", (event) => {
      if (!event.buttons) page.say(this.tell(...this.spot(event)));
    });
    this.details = new Pane(page, section);
  }

  use(part) {
    this.map = part.memory;
    this.step = 0;
    this.block = null;
    this.canvas.at = { x: 0, y: 0, scale: 1 };
    if (this.map) this.list();
    else this.details.show({ name: "", lines: () => ["no memory is planned here"], links: [] });
  }

  // The step and the byte under the pointer.
  spot(event) {
    const { x, y, scale } = this.canvas.at;
    const [w, h] = [this.canvas.canvas.clientWidth, this.canvas.canvas.clientHeight];
    const steps = this.map?.steps.length || 1;
    const step = Math.floor(((event.offsetX - x) / scale - 60) / ((w - 80) / steps));
    const byte = (1 - ((event.offsetY - y) / scale - 20) / (h - 60)) * (this.map?.bytes || 1);
    return [Math.max(0, Math.min(steps - 1, step)), byte];
  }

  tell(step, byte) {
    if (!this.map) return "";
    const block = blockAt(this.map.blocks, step, byte);
    const held = `step ${step}: ${this.map.steps[step][0]}`;
    if (!block) return held;
    const [name, offset, bytes, first, last] = block;
    return `${name}: ${size(bytes)} at ${offset}, steps ${first} to ${last} · ${held}`;
  }

  choose(step, byte) {
    if (!this.map) return;
    this.step = step;
    this.block = blockAt(this.map.blocks, step, byte) || null;
    const places = this.block ? this.block[5] : this.map.steps[step][1];
    this.page.link("pinned", places, this);
    this.list();
    this.canvas.redraw();
  }

  // All that lies in memory at the step, the largest first.
  list() {
    const { blocks, steps } = this.map;
    const here = blocks.filter(([, , , first, last]) => first <= this.step && this.step <= last);
    here.sort((a, b) => b[2] - a[2]);
    const sum = here.reduce((total, block) => total + block[2], 0);
    const lines = [
      `step ${this.step} of ${steps.length}: ${steps[this.step]?.[0] ?? ""}`,
      `${here.length} blocks, ${size(sum)} of ${size(this.map.bytes)}`,
      "",
    ];
    const links = steps[this.step]?.[1].length ? [[0, 0, steps[this.step][1]]] : [];
    for (const [name, , bytes, first, last, places] of here) {
      if (places.length) links.push([lines.length, lines.length, places]);
      lines.push(`${size(bytes).padStart(10)}  steps ${first} to ${last}  ${name}`);
    }
    this.details.show({ name: "", lines: () => lines, links });
  }

  move(step) {
    if (!this.map) return;
    this.choose(Math.max(0, Math.min(this.map.steps.length - 1, this.step + step)), -1);
  }

  mark() {
    this.canvas.redraw();
  }

  draw(context, w, h) {
    if (!this.map) return;
    const { blocks, steps, bytes } = this.map;
    const { x, y, scale } = this.canvas.at;
    context.translate(x, y);
    context.scale(scale, scale);
    const wide = (w - 80) / steps.length;
    const high = (h - 60) / Math.max(1, bytes);
    const { pinned } = this.page.marks;
    const tones = ["product", "loop", "repeat", "group"].map(colour);
    const [accent, rule, dim, ink] = ["accent", "rule", "dim", "ink"].map(colour);
    blocks.forEach((block, i) => {
      const [, offset, taken_, first, last, places] = block;
      const box = [60 + first * wide, h - 40 - (offset + taken_) * high, (last + 1 - first) * wide, taken_ * high];
      const isMarked = block === this.block || places.some((p) => pinned.has(p));
      context.fillStyle = isMarked ? accent : tones[i % tones.length];
      context.fillRect(...box);
      context.strokeStyle = rule;
      if (box[2] > 3 && box[3] > 3) context.strokeRect(...box);
    });
    context.strokeStyle = dim;
    context.beginPath();
    taken(blocks, steps.length).forEach((sum, i) => {
      context.lineTo(60 + i * wide, h - 40 - sum * high);
      context.lineTo(60 + (i + 1) * wide, h - 40 - sum * high);
    });
    context.stroke();
    context.strokeStyle = accent;
    context.strokeRect(60 + this.step * wide, 20, Math.max(1, wide), h - 60);
    context.fillStyle = ink;
    context.font = "11px system-ui, sans-serif";
    for (const share of [0, 0.5, 1]) {
      context.fillText(size(Math.round(bytes * share)), 2, h - 40 - bytes * share * high + (share ? 10 : 0));
    }
    context.fillText(`${steps.length} steps; ${blocks.length} blocks; the line: bytes in use`, 60, h - 20);
  }
}

// What happened, in order: compiles with the time of their stages, splits, recompiles.
class Timeline {
  constructor(page, section, data) {
    this.page = page;
    this.events = data.events;
    const column = element("div", "canvas short", section);
    this.canvas = new Canvas(column, (context, w, h) => this.draw(context, w, h));
    const below = element("div", "beside", section);
    this.story = new Pane(page, below);
    this.guards = new Pane(page, below);
    this.story.show(page.textOf("what happened", data.story));
    this.guards.show(page.textOf("guards", data.guards));
    this.canvas.canvas.addEventListener("mousemove", (event) => page.say(this.under(event)?.[4] || ""));
    this.canvas.canvas.addEventListener("click", (event) => {
      const bar = this.canvas.wasMoved(event) ? null : this.under(event);
      if (bar) {
        this.story.pick(bar[5]);
        this.story.reveal(bar[5]);
      }
    });
  }

  under(event) {
    const [x, y] = this.canvas.point(event);
    return this.bars.findLast((b) => b[0] <= x && x <= b[0] + b[2] && b[1] <= y && y <= b[1] + b[3]);
  }

  // Bars [x, y, w, h, text, line of the story, colour].
  lay(w) {
    this.bars = [];
    const whole = this.events.reduce((sum, event) => sum + event.seconds, 0) || 1;
    const room = Math.max(100, w - 60 - 16 * this.events.length);
    let x = 30;
    const tones = ["product", "loop", "repeat", "group"];
    this.events.forEach((event) => {
      const long = Math.max(4, (event.seconds / whole) * room);
      const color = event.kind === "compile" ? "box" : event.kind === "recompile" ? "accent" : "pinned";
      this.bars.push([x, 30, long, 26, event.text, event.line, color]);
      const ends = new Map([["", x]]); // of what was drawn inside a stage; "": the whole compile
      event.times.forEach(([name, seconds, whole], i) => {
        const part = event.seconds ? (seconds / event.seconds) * long : 0;
        const at = ends.get(whole) ?? x;
        const top = whole ? 88 : 62;
        this.bars.push([at, top, part, 22, `${name}: ${(1e3 * seconds).toFixed(2)} ms`, event.line, tones[i % 4]]);
        ends.set(whole, at + part);
        if (!whole) ends.set(name, at);
      });
      x += long + 16;
    });
  }

  draw(context, w) {
    this.lay(w);
    const { x, y, scale } = this.canvas.at;
    context.translate(x, y);
    context.scale(scale, scale);
    context.font = "11px system-ui, sans-serif";
    for (const [left, top, wide, high, text, , tone] of this.bars) {
      context.fillStyle = colour(tone);
      context.strokeStyle = colour("rule");
      context.fillRect(left, top, wide, high);
      context.strokeRect(left, top, wide, high);
      if (wide * scale < 30) continue;
      context.save();
      context.beginPath();
      context.rect(left, top, wide, high);
      context.clip();
      context.fillStyle = colour("ink");
      context.fillText(text, left + 4, top + 15);
      context.restore();
    }
    context.fillStyle = colour("dim");
    context.fillText("compiles (below: their stages), recompiles and splits in their order", 30, 18);
  }

  move(step) {
    this.story.jump(step);
  }

  nextFound(step) {
    this.page.active.nextFound?.(step);
  }

  mark() {}
}

// ------------------------------------------------------------------------------- the page

const VIEWS = ["Code", "Graph", "Rewrites", "Memory", "Timeline"];
const KEYS = [
  ["j k", "next, previous line (step, box)"],
  ["J K", "next, previous line that is linked"],
  ["h l", "pane to the left, to the right"],
  ["/", "search; Enter: next, Shift+Enter: previous"],
  ["Enter", "fold or unfold the selected box"],
  ["m", "this pane alone, or all"],
  ["1 … 5", "code, graph, rewrites, memory, timeline"],
  ["Esc", "no marks, no search"],
  ["?", "these keys"],
];

class Page {
  constructor(data) {
    this.data = data;
    this.panes = [];
    this.marks = { hover: new Set(), pinned: new Set() };
    this.wanted = "";
    this.files = data.files.map((file, i) => this.fileText(file, i));
    this.frame();
    this.views = {};
    this.usePart(0);
    this.show("Code");
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", () => this.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  // ---- texts

  textOf(name, { text, links, language }) {
    const whole = this.data.texts[text];
    let lines;
    return { name, links, language, whole: text, lines: () => (lines ??= whole.split("\n")) };
  }

  fileText(file, number) {
    const links = [];
    this.data.places.forEach(([f, line], p) => {
      if (f === number) links.push([line - file.first, line - file.first, [p]]);
    });
    links.sort((a, b) => a[0] - b[0]);
    const short = file.name.split("/").slice(-2).join("/");
    const made = this.textOf(short, { text: file.text, links, language: "python" });
    return { ...made, file: number, numbers: (line) => line + file.first };
  }

  // "file:line  its text" of a place.
  lineOf(place) {
    if (place < 0) return "";
    const [f, line] = this.data.places[place];
    const { name, first } = this.data.files[f];
    return `${name.split("/").pop()}:${line}  ${(this.files[f].lines()[line - first] ?? "").trim()}`;
  }

  // ---- the frame around the views

  frame() {
    const { name, summary, parts } = this.data;
    const header = element("header", "", document.body);
    element("h1", "", header, name);
    this.tabs = element("nav", "", header);
    VIEWS.forEach((view) => {
      element("button", "", this.tabs, view).addEventListener("click", () => this.show(view));
    });
    this.partChoice = element("select", "", header);
    this.partChoice.append(...parts.map((part) => new Option(part.name)));
    this.partChoice.hidden = parts.length < 2;
    this.partChoice.addEventListener("change", () => this.usePart(this.partChoice.selectedIndex));
    const said = element("span", "summary", header, summary);
    said.title = summary;
    this.box = element("input", "", header);
    this.box.type = "search";
    this.box.placeholder = "search ( / )";
    this.box.addEventListener("input", () => this.search(this.box.value));
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.nextFound(event.shiftKey ? -1 : 1);
    });
    element("button", "", header, "?").addEventListener("click", () => this.help());
    const main = element("main", "", document.body);
    this.sections = Object.fromEntries(VIEWS.map((view) => [view, element("section", "columns", main)]));
    this.sections.Timeline.classList.add("rows-of");
    this.footer = element("footer", "", document.body, " ");
  }

  usePart(index) {
    this.part = this.data.parts[index];
    this.stages = this.part.stages.map((stage) => this.textOf(stage.name, stage));
    for (const view of VIEWS.slice(0, 4)) {
      this.panes = this.panes.filter((pane) => !this.sections[view].contains(pane.host));
      this.sections[view].replaceChildren();
      delete this.views[view];
    }
    if (this.view) this.show(this.view);
  }

  // A view is made when it is first shown.
  show(view) {
    this.view = view;
    [...this.tabs.children].forEach((b) => b.setAttribute("aria-pressed", b.textContent === view));
    for (const each of VIEWS) this.sections[each].classList.toggle("shown", each === view);
    this.views[view] ??= this[`make${view}`](this.sections[view]);
    this.redraw();
    this.views[view].search?.(this.wanted);
  }

  makeCode(section) {
    const profile = this.data.profile ? [this.textOf("profile", this.data.profile)] : [];
    const choices = [...this.files, ...this.stages, ...profile];
    const named = (...names) => names.map((n) => this.stages.find((s) => s.name === n)).find(Boolean);
    const first = [this.files[0], named("passes", "graph"), named("tiled", "fused"), named("source"), ...profile];
    const shown = first.filter(Boolean);
    this.code = (shown.length ? shown : choices.slice(0, 1)).map((text) => {
      const pane = new Pane(this, section, choices);
      pane.show(text);
      return pane;
    });
    this.active = this.code[0];
    return { move: (step) => this.active.move(step), nextFound: (step) => this.active.nextFound(step) };
  }

  makeGraph(section) {
    const picture = new Picture(this, section);
    picture.use(this.part);
    return picture;
  }

  makeRewrites(section) {
    const steps = [...this.part.rewrites.map((each) => this.passOf(each)), ...this.codegenSteps()];
    const list = new Pane(this, section, [], "narrow");
    const right = new Pane(this, section);
    list.picked = (line) => right.show(steps[line].text());
    list.show({ name: "", lines: () => steps.map((s) => s.title), links: [] });
    if (steps.length) list.pick(0);
    return { list, right, move: (step) => list.move(step), nextFound: (step) => this.active.nextFound(step) };
  }

  passOf(each) {
    const text = this.textOf(each.name, { ...each, language: "python" });
    const signs = () => text.lines().map((line) => ({ "+": "+", "-": "-", "@": "@", "#": "@" })[line[0]] ?? " ");
    return { title: each.name, text: () => ({ ...text, signs: signs() }) };
  }

  // The stages behind the passes: each beside the one before, where they are alike.
  codegenSteps() {
    const made = [];
    this.stages.forEach((stage, i) => {
      const before = this.stages[i - 1];
      if (!before || ["graph", "passes", "joint", "entry"].includes(stage.name)) return;
      if (before.whole === stage.whole) return;
      made.push({ title: `stage ${stage.name}`, text: () => this.compared(before, stage) });
    });
    return made;
  }

  compared(before, after) {
    const rows = diff(before.lines(), after.lines());
    const changed = rows.filter(([sign]) => sign !== " ").length;
    if (changed > rows.length * 0.6) return after;
    const links = [];
    let [a, b] = [0, 0];
    const numbered = rows.map(([sign, text]) => {
      const places = sign === "-" ? placesAt(before.links, a) : placesAt(after.links, b);
      if (sign !== "+") a++;
      if (sign !== "-") b++;
      return [sign, text, places];
    });
    const shown = hunks(numbered);
    shown.forEach(([, , places], i) => places?.length && links.push([i, i, places]));
    const lines = shown.map(([sign, text]) => `${sign} ${text}`);
    return { name: after.name, lines: () => lines, links, language: after.language, signs: shown.map((r) => r[0]) };
  }

  makeMemory(section) {
    const memory = new Memory(this, section);
    memory.use(this.part);
    return memory;
  }

  makeTimeline(section) {
    return new Timeline(this, section, this.data);
  }

  // ---- marks

  // Mark places: "hover" for as long as the pointer is there, "pinned" by a click in `from`.
  link(how, places, from = null) {
    const marked = this.marks[how];
    if (marked.size === places.length && places.every((p) => marked.has(p))) return;
    this.marks[how] = new Set(places);
    if (how === "hover") {
      for (const pane of this.panes) pane.render();
      this.say(places.slice(0, 3).map((p) => this.lineOf(p)).join("   ·   "));
      return;
    }
    const file = this.code?.find((pane) => pane.text.file !== undefined);
    if (file && file !== from && places.length && !places.some((p) => this.data.places[p][0] === file.text.file)) {
      file.show(this.files[this.data.places[places[0]][0]]);
    }
    for (const pane of this.panes) pane.mark(pane !== from);
    this.views[this.view]?.mark?.();
  }

  activate(pane) {
    this.active = pane;
    for (const each of this.panes) each.host.classList.toggle("active", each === pane);
  }

  say(text) {
    this.footer.textContent = text || " ";
  }

  redraw() {
    for (const pane of this.panes) pane.render();
    const view = this.views[this.view];
    view?.canvas?.redraw();
  }

  // ---- keys

  search(wanted) {
    this.wanted = wanted;
    for (const pane of this.panes) if (pane.text) pane.search(wanted);
    this.views[this.view].search?.(wanted);
  }

  nextFound(step) {
    this.views[this.view].nextFound?.(step);
  }

  help() {
    this.dialog ??= this.helpDialog();
    this.dialog.showModal();
  }

  helpDialog() {
    const dialog = element("dialog", "", document.body);
    const table = element("table", "", dialog);
    for (const [keys, what] of KEYS) {
      const row = element("tr", "", table);
      element("kbd", "", element("td", "", row), keys);
      element("td", "", row, what);
    }
    dialog.addEventListener("click", () => dialog.close());
    return dialog;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      this.box.value = "";
      this.box.blur();
      this.search("");
      this.link("pinned", []);
      return;
    }
    if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
    const view = this.views[this.view];
    const action = {
      j: () => view.move(1),
      k: () => view.move(-1),
      J: () => (this.active.jump ? this.active.jump(1) : view.move(1)),
      K: () => (this.active.jump ? this.active.jump(-1) : view.move(-1)),
      h: () => this.beside(-1),
      l: () => this.beside(1),
      m: () => this.alone(),
      n: () => this.nextFound(1),
      N: () => this.nextFound(-1),
      Enter: () => view.enter?.(),
      "/": () => this.box.focus(),
      "?": () => this.help(),
    }[event.key] ?? (VIEWS[event.key - 1] && (() => this.show(VIEWS[event.key - 1])));
    if (!action) return;
    event.preventDefault();
    action();
  }

  beside(step) {
    const here = this.panes.filter((pane) => this.sections[this.view].contains(pane.host));
    const next = here[(here.indexOf(this.active) + step + here.length) % here.length];
    if (next) this.activate(next);
  }

  alone() {
    const here = this.panes.filter((pane) => this.sections[this.view].contains(pane.host));
    const isAlone = here.some((pane) => pane.host.classList.contains("hidden"));
    for (const pane of here) pane.host.classList.toggle("hidden", !isAlone && pane !== this.active);
    this.redraw();
  }
}

if (typeof document === "object") {
  window.page = new Page(JSON.parse(document.getElementById("data").textContent));
}
