// The supported operators.

import {address, get, quoted} from "/web/api.js";
import {empty, h, panel, show, table} from "/web/dom.js";
import {number, words} from "/web/format.js";
import {filters, pager} from "/web/parts.js";

const FIELDS = [
  {name: "name", title: "Name", hint: "Conv*"},
  {name: "family", title: "Family", hint: "elementwise"},
  {name: "filter", title: "Filter", hint: "since_version > 12", wide: true},
];

export async function operators(context) {
  const {query} = context;
  const parts = ["name", "family"]
    .filter((name) => query.get(name))
    .map((name) => `${name} = ${quoted(query.get(name))}`);
  if (query.get("filter")) parts.push(`(${query.get("filter")})`);
  const order = query.get("order") ?? "domain, name";
  const asked = {
    filter: parts.join(" AND "),
    orderBy: order === "domain, name" ? "" : order,
    pageSize: 100,
    pageToken: query.get("page"),
  };
  const answer = await get("/v1/operators", asked, context.signal);
  const found = answer.operators ?? [];
  show(
    context.view,
    h(
      "div",
      {class: "title"},
      h("h1", {}, "Operators"),
      h("span", {class: "note"}, `compiler ${answer.compilerVersion ?? ""}`),
    ),
    filters(context, FIELDS),
    panel(
      "Imported",
      {json: address("/v1/operators", asked)},
      found.length
        ? table(
            "Operators",
            [
              {title: "Operator", sort: "name", cell: ({name}) => name},
              {title: "Domain", sort: "domain", cell: ({domain}) => domain || "ai.onnx"},
              {title: "Family", sort: "family", cell: ({family}) => family},
              {title: "Versions", cell: ({sinceVersion, untilVersion}) => `${sinceVersion} to ${untilVersion}`},
              {
                title: "Inputs",
                cell: ({minInputs = 0, maxInputs = 0}) =>
                  maxInputs < 0
                    ? `${minInputs} or more`
                    : minInputs === maxInputs
                      ? minInputs
                      : `${minInputs} to ${maxInputs}`,
              },
              {
                title: "Types",
                class: "wide",
                cell: ({types = []}) => types.map((type) => words(type.replace("DATA_TYPE_", ""))).join(", "),
              },
            ],
            found,
            {order, sortBy: (next) => context.set({order: next, page: ""})},
          )
        : empty("No operator matches. Names accept wildcards: Conv*."),
    ),
    pager(context, answer.nextPageToken, number(found.length), "operators"),
  );
}
