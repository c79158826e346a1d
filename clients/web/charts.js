// Charts: the roofline, and the best result over trials.

import {h, newId, s} from "/web/dom.js";
import {ms, scaled} from "/web/format.js";

const SIZE = {width: 720, height: 300, left: 84, right: 16, top: 12, bottom: 40};

const exponent = (value) => Math.log10(value);
function powers(low, high) {
  const all = [];
  for (let power = Math.ceil(low); power <= Math.floor(high); ++power) all.push(power);
  const every = Math.ceil(all.length / 8);
  return all.filter((_, i) => i % every === 0);
}

function frame(label, ...children) {
  const id = newId("chart");
  return h(
    "div",
    {class: "drawn", tabindex: "0", role: "group", "aria-label": label},
    s(
      "svg",
      {class: "chart", viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "group", "aria-labelledby": id},
      s("title", {id}, label),
      children,
    ),
  );
}

/**
 * Roofline: arithmetic intensity and speed of kernels. points: {name, flops, bytes, ms}; `peak` in FLOP/s of the whole chip and
 * `levels` its memories, [{name, bandwidth in B/s}], from its description.
 */
export function roofline(points, peak, levels, threadNote) {
  const bandwidth = Math.min(...levels.map((level) => level.bandwidth));
  const shown = points
    .filter(({flops, bytes, ms: time}) => flops > 0 && bytes > 0 && time > 0)
    .map((point) => ({...point, x: exponent(point.flops / point.bytes), y: exponent(point.flops / (point.ms / 1000))}));
  if (shown.length === 0) return h("p", {class: "note"}, "No kernel has both work and traffic to show.");
  const roof = peak > 0 && levels.length > 0;
  const xs = shown.map(({x}) => x),
    ys = shown.map(({y}) => y);
  const x0 = Math.floor(Math.min(...xs, roof ? exponent(peak / bandwidth) - 1 : 0)),
    x1 = Math.ceil(Math.max(...xs, roof ? exponent(peak / bandwidth) + 0.5 : 1));
  const y0 = Math.floor(Math.min(...ys)),
    y1 = Math.max(...ys, roof ? exponent(peak) : 0) + 0.3;
  const px = (x) => SIZE.left + ((x - x0) / (x1 - x0)) * (SIZE.width - SIZE.left - SIZE.right);
  const py = (y) => SIZE.height - SIZE.bottom - ((y - y0) / (y1 - y0)) * (SIZE.height - SIZE.top - SIZE.bottom);
  const most = Math.max(...shown.map(({ms: time}) => time));
  // Each memory level bounds the speed by its bandwidth times the intensity. Outermost first; levels of equal bandwidth are
  // drawn once.
  const slopes = roof ? [...new Map([...levels].reverse().map((level) => [level.bandwidth, level])).values()] : [];
  const slope = ({name, bandwidth: rate}, i) => {
    const start = Math.max(x0, y0 - exponent(rate)),
      knee = Math.max(start, exponent(peak / rate));
    const angle = (-Math.atan2(py(start) - py(start + 1), px(start + 1) - px(start)) * 180) / Math.PI;
    const at = start + Math.min(0.06 + 0.02 * i, (knee - start) / 2);
    return [
      s("path", {
        class: rate === bandwidth ? "roof outer" : "roof",
        d: `M${px(start)},${py(start + exponent(rate))} L${px(knee)},${py(exponent(peak))}`,
      }),
      knee > start + 0.3 &&
        s(
          "text",
          {
            x: px(at),
            y: py(at + exponent(rate)) - 5,
            transform: `rotate(${angle} ${px(at)} ${py(at + exponent(rate)) - 5})`,
          },
          `${name} ${scaled(rate, "B/s")}`,
        ),
    ];
  };
  const flat = roof ? Math.max(x0, Math.min(...slopes.map(({bandwidth: rate}) => exponent(peak / rate)))) : 0;
  return h(
    "figure",
    {},
    frame(
      "Roofline: speed over arithmetic intensity",
      powers(x0, x1).map((x) => [
        s("line", {class: "grid", x1: px(x), x2: px(x), y1: SIZE.top, y2: py(y0)}),
        s(
          "text",
          {x: px(x), y: py(y0) + 16, "text-anchor": "middle"},
          x < 3 ? String(Number((10 ** x).toPrecision(1))) : scaled(10 ** x, "").trim(),
        ),
      ]),
      powers(y0, y1).map((y) => [
        s("line", {class: "grid", y1: py(y), y2: py(y), x1: SIZE.left, x2: SIZE.width - SIZE.right}),
        s("text", {x: SIZE.left - 8, y: py(y) + 4, "text-anchor": "end"}, scaled(10 ** y, "FLOP/s")),
      ]),
      s(
        "text",
        {x: SIZE.width - SIZE.right, y: SIZE.height - 6, "text-anchor": "end"},
        "FLOP per byte of compulsory traffic",
      ),
      slopes.map(slope),
      roof && s("path", {class: "roof outer", d: `M${px(flat)},${py(exponent(peak))} H${px(x1)}`}),
      roof &&
        s(
          "text",
          {x: SIZE.width - SIZE.right, y: py(exponent(peak)) - 6, "text-anchor": "end"},
          `${scaled(peak, "FLOP/s")} at most`,
        ),
      shown.map((point) =>
        s(
          "circle",
          {
            class: "point",
            cx: px(point.x),
            cy: py(point.y),
            r: 3.5 + 7 * Math.sqrt(point.ms / most),
            role: "img",
            tabindex: "0",
            "aria-label": `${point.name}: ${ms(point.ms)}`,
          },
          s(
            "title",
            {},
            `${point.name}\n${ms(point.ms)}, ${scaled(10 ** point.y, "FLOP/s")}, ${(10 ** point.x).toPrecision(3)} FLOP a byte`,
          ),
        ),
      ),
    ),
    h(
      "p",
      {class: "note"},
      roof
        ? `Roofs are those of the whole chip, from its description, one for each memory level; ${threadNote}. A circle's area is its kernel's time.`
        : "The target's description has no figures for a roof. A circle's area is its kernel's time.",
    ),
  );
}

/** Measurements in the order of their times, and the best one up to each. points: {time, value, label}. */
export function bestSoFar(points) {
  const low = Math.min(...points.map(({value}) => value)),
    high = Math.max(...points.map(({value}) => value));
  const top = high * 1.05,
    bottom = Math.max(0, low - (high - low) * 0.15);
  const px = (i) =>
    SIZE.left + (points.length > 1 ? i / (points.length - 1) : 0.5) * (SIZE.width - SIZE.left - SIZE.right);
  const py = (value) =>
    SIZE.height - SIZE.bottom - ((value - bottom) / (top - bottom || 1)) * (SIZE.height - SIZE.top - SIZE.bottom);
  let best = Infinity;
  const path = points
    .map(({value}, i) => {
      best = Math.min(best, value);
      return i ? `H${px(i)} V${py(best)}` : `M${px(0)},${py(best)}`;
    })
    .join(" ");
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => bottom + share * (top - bottom));
  return frame(
    "Best time so far",
    ticks.map((value) => [
      s("line", {class: "grid", y1: py(value), y2: py(value), x1: SIZE.left, x2: SIZE.width - SIZE.right}),
      s("text", {x: SIZE.left - 8, y: py(value) + 4, "text-anchor": "end"}, ms(value)),
    ]),
    points.map(({value, label}, i) =>
      s("circle", {class: "faint", cx: px(i), cy: py(value), r: 3}, s("title", {}, label)),
    ),
    s("path", {class: "line", d: path}),
    s("text", {x: SIZE.left, y: SIZE.height - 8}, "first measurement"),
    s("text", {x: SIZE.width - SIZE.right, y: SIZE.height - 8, "text-anchor": "end"}, `measurement ${points.length}`),
  );
}

/**
 * Speedup of the best schedule so far over the default, over trials: `lines` and, drawn thicker, `main`, each {name, points:
 * [{x, y}]}.
 */
export function speedCurves(lines, main) {
  const all = [main, ...lines].flatMap(({points}) => points);
  const right = Math.max(1, ...all.map(({x}) => x)),
    top = Math.max(1.05, ...all.map(({y}) => y)) * 1.02,
    bottom = Math.min(1, ...all.map(({y}) => y));
  const px = (x) => SIZE.left + (x / right) * (SIZE.width - SIZE.left - SIZE.right);
  const py = (y) =>
    SIZE.height - SIZE.bottom - ((y - bottom) / (top - bottom)) * (SIZE.height - SIZE.top - SIZE.bottom);
  const path = (points) =>
    points
      .map(({x, y}, i) =>
        i ? `H${px(x).toFixed(1)} V${py(y).toFixed(1)}` : `M${px(x).toFixed(1)},${py(y).toFixed(1)}`,
      )
      .join(" ");
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => bottom + share * (top - bottom));
  return h(
    "figure",
    {},
    frame(
      "Speedup of the best so far over the default",
      ticks.map((value) => [
        s("line", {class: "grid", y1: py(value), y2: py(value), x1: SIZE.left, x2: SIZE.width - SIZE.right}),
        s("text", {x: SIZE.left - 8, y: py(value) + 4, "text-anchor": "end"}, `${value.toFixed(2)} ×`),
      ]),
      lines.map(({name, points}) => s("path", {class: "line faint-line", d: path(points)}, s("title", {}, name))),
      s("path", {class: "line", d: path(main.points)}, s("title", {}, main.name)),
      s("text", {x: SIZE.left, y: SIZE.height - 8}, "first trial"),
      s("text", {x: SIZE.width - SIZE.right, y: SIZE.height - 8, "text-anchor": "end"}, `trial ${right}`),
    ),
    h("p", {class: "note"}, `The thick line is ${main.name}; the others are its workloads, each relative to its own default.`),
  );
}
