// Creates elements: h("td", {class: "num"}, 3). Text is never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" && "value" in node) node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  add(node, children);
  return node;
}

export function add(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
}

export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Sets width or height in per cent through the style object: the page's policy forbids style attributes. */
export function sized(node, property, share) {
  node.style[property] = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return node;
}

/**
 * Replaces the children. The focus stays on the element with the same id, link target or label. Open `details` elements stay
 * open, by id.
 */
export function show(node, ...children) {
  const focused = document.activeElement;
  const within = focused && focused !== node && node.contains(focused);
  const opened = [...node.querySelectorAll("details[open][id]")].map(({id}) => id);
  node.replaceChildren();
  add(node, children);
  for (const id of opened) {
    const again = document.getElementById(id);
    if (again) again.open = true;
  }
  if (!within) return;
  const same = (name) =>
    focused.getAttribute(name) &&
    [...node.querySelectorAll(`[${name}]`)].find((other) => other.getAttribute(name) === focused.getAttribute(name));
  (same("id") || same("href") || same("aria-label"))?.focus({preventScroll: true});
}

let unique = 0;
export const newId = (prefix) => `${prefix}-${++unique}`;

export function panel(title, options, ...body) {
  const id = newId("panel");
  return h(
    "section",
    {class: `panel ${options?.class ?? ""}`, "aria-labelledby": id},
    h(
      "div",
      {class: "panel-head"},
      h("h2", {id}, title),
      h(
        "div",
        {class: "panel-tools"},
        options?.tools,
        options?.json && h("a", {class: "json", href: options.json, "aria-label": `${title} as JSON`}, "JSON"),
      ),
    ),
    body,
  );
}

/** A table in a horizontally scrolling box. columns: {title, cell(row), num, sort, hide}. */
export function table(caption, columns, rows, options = {}) {
  const head = columns.map((column) => {
    if (!column.title) return h("td", {});
    if (!column.sort || !options.sortBy) return h("th", {scope: "col", class: column.num && "num"}, column.title);
    const [field, direction] = (options.order ?? "").split(" ");
    const now = field === column.sort ? (direction === "desc" ? "descending" : "ascending") : "none";
    const next =
      now === "descending" ? column.sort : now === "ascending" ? `${column.sort} desc` : (column.first ?? column.sort);
    return h(
      "th",
      {scope: "col", class: column.num && "num", "aria-sort": now},
      h(
        "button",
        {type: "button", class: "sort", id: `sort-${column.sort}`, onclick: () => options.sortBy(next)},
        column.title,
        h("span", {"aria-hidden": "true"}, now === "descending" ? " ↓" : now === "ascending" ? " ↑" : " ↕"),
      ),
    );
  });
  return h(
    "div",
    {class: "scroll", tabindex: "0", role: "group", "aria-label": caption},
    h(
      "table",
      {},
      h("caption", {class: "unseen"}, caption),
      h("thead", {}, h("tr", {}, head)),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            columns.map((column, i) =>
              h(
                i === 0 ? "th" : "td",
                {scope: i === 0 ? "row" : undefined, class: column.num ? "num" : column.class},
                column.cell(row),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

/** The text of an empty view: a description of its contents, and the command that produces them. */
export function empty(text, command) {
  return h("div", {class: "empty"}, h("p", {}, text), command && h("pre", {}, h("code", {}, command)));
}

export function facts(pairs) {
  return h(
    "dl",
    {class: "facts"},
    pairs
      .filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/** An expandable tree of any message. */
export function tree(value, name = "", open = true, depth = 0) {
  const label = name && h("span", {class: "key"}, `${name}: `);
  if (value === null || typeof value !== "object") {
    return h(
      "div",
      {class: "leaf"},
      label,
      h("span", {class: typeof value === "string" ? "text" : "number"}, String(value)),
    );
  }
  const entries = Object.entries(value);
  const count = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (depth === 0 && !name)
    return h(
      "div",
      {class: "tree"},
      entries.map(([key, item]) => tree(item, key, false, 1)),
    );
  const node = h("details", {}, h("summary", {}, label, h("span", {class: "count"}, count)));
  const grow = () => {
    if (node.childElementCount > 1) return;
    add(
      node,
      entries.slice(0, 500).map(([key, item]) => tree(item, key, false, depth + 1)),
    );
    if (entries.length > 500) add(node, h("p", {class: "note"}, `and ${entries.length - 500} more`));
  };
  node.addEventListener("toggle", grow);
  if (open || entries.length <= 3) {
    node.open = true;
    grow();
  }
  return node;
}
