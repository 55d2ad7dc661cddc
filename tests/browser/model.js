// Checks of the page's functions of data (jitcap/report/page.js) without a document: node model.js.
"use strict";
const assert = require("node:assert");
const path = require("node:path");
const page = require(path.join(__dirname, "../../jitcap/report/page.js"));

let passed = 0;
function check(name, body) {
  body();
  passed++;
  console.log(`ok   ${name}`);
}

let seed = 1;
function below(n) {
  seed = (seed * 1103515245 + 12345) & 0x7fffffff;
  return (seed >> 8) % n;
}

check("lines in sight", () => {
  const [first, end] = page.visible(18 * 1000, 900, 100000);
  assert(first <= 1000 && end >= 1050 && end - first < 90);
  assert.deepStrictEqual(page.visible(0, 900, 3), [0, 3]);
  assert.deepStrictEqual(page.visible(0, 900, 0), [0, 0]);
});

check("links", () => {
  const links = [[0, 2, [1]], [4, 4, [1, 2]], [9, 12, [3]]];
  const places = [...Array(14).keys()].map((line) => page.placesAt(links, line).join());
  assert.deepStrictEqual(places, ["1", "1", "1", "", "1,2", "", "", "", "", "3", "3", "3", "3", ""]);
  assert.deepStrictEqual(page.runsOf(links, new Set([1])), [[0, 2], [4, 4]]);
  assert.deepStrictEqual(page.runsOf(links, new Set()), []);
  assert.strictEqual(page.nextLinked(links, 2, 1), 4);
  assert.strictEqual(page.nextLinked(links, 4, -1), 0);
  assert.strictEqual(page.nextLinked(links, 12, 1), 12);
});

check("search", () => {
  assert.deepStrictEqual(page.search(["Add", "mul", "badder"], "ADD"), [0, 2]);
  assert.deepStrictEqual(page.search(["Add"], ""), []);
});

check("words", () => {
  const kinds = (line, language) => page.tokens(line, language).map(([k, a, b]) => [k, line.slice(a, b)]);
  assert.deepStrictEqual(kinds('def f(x1): # "no"', "python"), [["keyword", "def"], ["comment", '# "no"']]);
  assert.deepStrictEqual(kinds("const i64 n = 12; // r", "cpp"), [["keyword", "const"], ["number", "12"], ["comment", "// r"]]);
  assert.deepStrictEqual(kinds("x", "none"), []);
});

check("3,000 differences", () => {
  const drawn = () => [...Array(below(12))].map(() => `line ${below(5)}`);
  for (let i = 0; i < 3000; i++) {
    const [a, b] = [drawn(), drawn()];
    for (const most of [800, 2]) {
      const rows = page.diff(a, b, most);
      assert.deepStrictEqual(rows.filter(([sign]) => sign !== "+").map((row) => row[1]), a);
      assert.deepStrictEqual(rows.filter(([sign]) => sign !== "-").map((row) => row[1]), b);
    }
  }
  const one = page.diff(["a", "b", "c"], ["a", "x", "c"]);
  assert.strictEqual(one.filter(([sign]) => sign !== " ").length, 2);
});

check("a difference in long texts is quick", () => {
  const a = [...Array(20000).keys()].map(String);
  const b = a.filter((line) => Number(line) % 500);
  const start = process.hrtime.bigint();
  assert.strictEqual(page.diff(a, b).filter(([sign]) => sign !== " ").length, 40);
  assert(process.hrtime.bigint() - start < 2_000_000_000n);
});

check("hunks", () => {
  const rows = page.diff(["a", "b", "c", "d", "e"], ["a", "b", "c", "d", "f"]);
  assert.deepStrictEqual(page.hunks(rows, 1).map((row) => row[0]), ["@", " ", "-", "+"]);
});

const graph = {
  name: "g",
  inputs: [["x", "float32[2]"]],
  nodes: [
    ["add", "add", "float32[2]", 0, [-1], []], ["mul", "mul", "float32[2]", 1, [0], []],
    ["exp", "exp", "float32[2]", 1, [0], []], ["dot", "dot", "float32[2]", 2, [1, 2], []],
    ["call", "call", "float32[2]", 2, [3], [1]],
  ],
  groups: ["", "graph", 0, 5, [["f", "function", 1, 4, [["g", "function", 2, 4, []]]]]],
};
const body = {
  name: "b", inputs: [["x", "float32[2]"]], nodes: [["log", "log", "float32[2]", 3, [-1], []]],
  groups: ["", "graph", 0, 1, []],
};
const graphs = [graph, body];

check("groups fold", () => {
  const items = page.itemsOf(graph.groups);
  assert.deepStrictEqual(items.map((i) => (typeof i === "number" ? i : i[0])), [0, "f", 4]);
  assert.deepStrictEqual(page.edgesOf(graph, graph.groups, items), [[0, 1], [1, 2]]);
  const folded = page.scene(graphs, 0, graph.groups, new Set(), "");
  assert.strictEqual(folded.boxes.length, 3);
  const way = page.wayTo(graphs, 0, 0, 3);
  assert.deepStrictEqual(way, ["/0:1-4function", "/0:1-4function/0:2-4function", "/0:1-4function/0:2-4function/0:3"]);
  const open = page.scene(graphs, 0, graph.groups, new Set(way), "");
  assert.strictEqual(open.boxes[1].inner[0].boxes[1].inner[0].boxes[1].label, "dot");
  assert.strictEqual(page.wayTo(graphs, 0, 1, 0).length, 2);
});

check("boxes do not overlap, edges lead down", () => {
  for (let round = 0; round < 200; round++) {
    const count = 1 + below(30);
    const boxes = [...Array(count)].map(() => ({ w: 20 + below(100), h: 20 + below(40) }));
    const edges = [];
    for (let i = below(60); i > 0 && count > 1; i--) {
      const to = 1 + below(count - 1);
      edges.push([below(to), to]);
    }
    page.layers(boxes, edges);
    for (const [from, to] of edges) assert(boxes[from].y + boxes[from].h < boxes[to].y);
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
      const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
      assert(apart, JSON.stringify([a, b]));
    }));
  }
});

check("search in graphs", () => {
  const found = page.searchGraphs(graphs, 0, "LOG", () => "");
  assert.deepStrictEqual(found, [[1, 0]]);
  assert.strictEqual(page.searchGraphs(graphs, 0, "here", (node) => (node[3] === 1 ? "here" : "")).length, 2);
});

check("memory over time", () => {
  const blocks = [["a", 0, 64, 0, 1, []], ["b", 64, 128, 1, 2, []], ["c", 0, 64, 2, 2, []]];
  assert.deepStrictEqual(page.taken(blocks, 3), [64, 192, 192]);
  assert.strictEqual(page.blockAt(blocks, 2, 10)[0], "c");
  assert.strictEqual(page.blockAt(blocks, 0, 100), undefined);
  assert.strictEqual(page.size(1536), "1.54 kB");
  assert.strictEqual(page.size(12), "12 B");
});

console.log(`${passed} passed, 0 failed`);
