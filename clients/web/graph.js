// A layered drawing of a directed graph, from top to bottom. Layers are longest paths; nodes are ordered by the mean position
// of their neighbours in four sweeps (Sugiyama's method).

import {facts, h, newId, s, show, table} from "/web/dom.js";
import {bytes, number, scaled, shape} from "/web/format.js";

const NODE = {width: 220, height: 40, across: 24, down: 32};
/** Larger graphs are unreadable as a drawing; the list shows all nodes. */
const MOST = 800;

const CLASSES = [
  ["contraction", "multiplies and adds", /conv|gemm|matmul|attention|contraction|lstm|gru|rnn|einsum/i],
  ["reduces", "sums or picks", /pool|reduce|softmax|norm|mean|sum|argmax|topk/i],
  ["moves", "moves data", /transpose|reshape|concat|slice|pad|gather|split|pack|layout|copy|flatten|expand/i],
];
const classOf = (op) => CLASSES.find(([, , pattern]) => pattern.test(op ?? ""))?.[0] ?? "other";

function layered(nodes, edges) {
  const at = new Map(nodes.map((node) => [number(node.id), {node, row: 0, readers: [], reads: []}]));
  for (const edge of edges) {
    const from = at.get(number(edge.from ?? 0)),
      to = at.get(number(edge.to ?? 0));
    if (!from || !to || from === to || to.reads.includes(from)) continue;
    from.readers.push(to);
    to.reads.push(from);
  }
  // Kahn's topological order. Nodes on a cycle (there should be none) stay in the first row.
  const open = new Map([...at.values()].map((place) => [place, place.reads.length]));
  const ready = [...at.values()].filter((place) => !place.reads.length);
  for (let i = 0; i < ready.length; ++i) {
    for (const reader of ready[i].readers) {
      reader.row = Math.max(reader.row, ready[i].row + 1);
      open.set(reader, open.get(reader) - 1);
      if (!open.get(reader)) ready.push(reader);
    }
  }
  const rows = [];
  for (const place of at.values()) (rows[place.row] ??= []).push(place);
  const number_ = (row) =>
    row.forEach((place, i) => {
      place.x = i - (row.length - 1) / 2;
    });
  rows.forEach(number_);
  for (let sweep = 0; sweep < 4; ++sweep) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      for (const place of row) {
        const near = down ? place.reads : place.readers;
        place.wish = near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : place.x;
      }
      row.sort((one, other) => one.wish - other.wish);
      // Places each node as close to its desired position as the left neighbour permits, then shifts the row to the mean of the
      // desired positions.
      let left = -Infinity;
      for (const place of row) {
        place.x = Math.max(place.wish, left + 1);
        left = place.x;
      }
      const shift = row.reduce((sum, place) => sum + place.wish - place.x, 0) / row.length;
      for (const place of row) place.x += shift;
    }
  }
  return {at, rows};
}

/** The drawing, details of the selected node, and the nodes as a list. `more(node)` returns further details. */
export function graphView(title, graph, more = () => []) {
  const nodes = graph.nodes ?? [],
    edges = graph.edges ?? [];
  const chosen = h(
    "div",
    {class: "chosen", "aria-live": "polite"},
    h("p", {class: "note"}, "Choose a node to see its details."),
  );
  const list = () =>
    table(
      `${title}: nodes`,
      [
        {title: "Node", class: "wide", cell: (node) => node.name || `#${node.id ?? 0}`},
        {title: "Operation", class: "wide", cell: (node) => node.op},
        {title: "Layout", cell: (node) => node.layout ?? ""},
        {title: "Work", num: true, cell: (node) => scaled(node.flops, "FLOP")},
        {title: "Traffic", num: true, cell: (node) => bytes(node.bytes)},
      ],
      nodes.slice(0, 2000),
    );
  const asList = h("details", {}, h("summary", {}, `As a list of ${nodes.length} nodes`));
  asList.addEventListener("toggle", () => {
    if (asList.childElementCount === 1) asList.append(list());
  });
  if (nodes.length === 0) return h("p", {class: "note"}, "No node is left.");
  if (nodes.length > MOST) {
    asList.open = true;
    return h("div", {}, h("p", {class: "note"}, `${nodes.length} nodes are too many for a drawing.`), asList);
  }
  const choose = (node) =>
    show(
      chosen,
      h("h3", {}, node.name || `Node ${node.id ?? 0}`),
      facts([
        ["Operation", node.op],
        ["Layout of its result", node.layout],
        ["Work", scaled(node.flops, "FLOP")],
        ["Compulsory traffic", bytes(node.bytes)],
        ...more(node),
        [
          "Reads",
          edges
            .filter((edge) => number(edge.to) === number(node.id))
            .map(tensor)
            .join("; "),
        ],
        ["Writes", [...new Set(edges.filter((edge) => number(edge.from) === number(node.id)).map(tensor))].join("; ")],
      ]),
    );
  return h(
    "div",
    {},
    h(
      "div",
      {class: "graph", tabindex: "0", role: "group", "aria-label": `${title}, picture`},
      picture(title, nodes, edges, choose),
    ),
    h(
      "p",
      {class: "keys"},
      CLASSES.map(([name, text]) => h("span", {class: name}, text)),
      h("span", {}, "element by element, other"),
    ),
    chosen,
    asList,
  );
}

const tensor = ({tensor: spec, layout}) =>
  spec ? `${spec.name ? `${spec.name} ` : ""}${shape(spec)}${layout ? ` ${layout}` : ""}` : "";

function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function picture(title, nodes, edges, choose) {
  const {at, rows} = layered(nodes, edges);
  const all = [...at.values()];
  const least = Math.min(...all.map(({x}) => x)),
    most = Math.max(...all.map(({x}) => x));
  const step = NODE.width + NODE.across;
  const width = (most - least) * step + NODE.width + 32,
    height = rows.length * (NODE.height + NODE.down) + 16;
  const left = (place) => 16 + (place.x - least) * step,
    top = (place) => 16 + place.row * (NODE.height + NODE.down);
  const lines = s("g", {}),
    boxes = s("g", {});
  const lineOf = [];
  for (const place of all) {
    for (const reader of place.readers) {
      const x1 = left(place) + NODE.width / 2,
        y1 = top(place) + NODE.height,
        x2 = left(reader) + NODE.width / 2,
        y2 = top(reader);
      // An edge over several rows bends around the nodes of the rows between.
      const bend = Math.max(16, Math.min(60, (y2 - y1) / 2)),
        aside = reader.row - place.row > 1 && Math.abs(x1 - x2) < 1 ? NODE.width / 2 + 14 : 0;
      const path = aside
        ? `M${x1 + 40},${y1} C${x1 + aside + 10},${y1 + 40} ${x2 + aside + 10},${y2 - 40} ${x2 + 40},${y2}`
        : `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`;
      const line = s("path", {class: "edge", d: path});
      lineOf.push([place, reader, line]);
      lines.append(line);
    }
  }
  for (const place of all) {
    const {node} = place,
      x = left(place),
      y = top(place);
    const name = node.name || `#${node.id ?? 0}`;
    const box = s(
      "g",
      {
        class: `node ${classOf(node.op)}`,
        role: "button",
        tabindex: "0",
        "aria-pressed": "false",
        "aria-label": `${node.op ?? ""} ${name}`,
      },
      s("rect", {x, y, width: NODE.width, height: NODE.height, rx: 5}),
      s("rect", {class: "strip", x, y: y + 5, width: 4, height: NODE.height - 10}),
      s("text", {x: x + 12, y: y + 16}, cut(node.op || name, 31)),
      s(
        "text",
        {class: "small", x: x + 12, y: y + 31},
        cut([node.layout, node.op ? name : ""].filter(Boolean).join(" · "), 33),
      ),
      s("title", {}, `${node.op ?? ""}\n${name}`),
    );
    const take = () => {
      boxes.querySelector('[aria-pressed="true"]')?.setAttribute("aria-pressed", "false");
      box.setAttribute("aria-pressed", "true");
      for (const [from, to, line] of lineOf) line.classList.toggle("lit", from === place || to === place);
      choose(node);
    };
    box.addEventListener("click", take);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        take();
      }
    });
    boxes.append(box);
  }
  const id = newId("graph");
  return s(
    "svg",
    {width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-labelledby": id},
    s("title", {id}, title),
    lines,
    boxes,
  );
}
