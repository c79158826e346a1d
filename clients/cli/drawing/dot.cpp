#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/drawing/picture.h"

namespace tessera::client {
namespace {

/// A quoted string in Graphviz's language, in which a backslash starts an escape.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return result + "\"";
}

}  // namespace

std::string dotText(const v1::Explanation& explanation) {
  std::string dot =
      "digraph tessera {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n"
      "  edge [fontname=\"sans-serif\", fontsize=8];\n";
  int number = 0;
  for (const Panel& panel : panelsOf(explanation)) {
    const std::string prefix = absl::StrCat("g", number++, "_");
    absl::StrAppend(&dot, "  subgraph cluster_", prefix, " {\n    label=", quoted(panel.title), ";\n");
    for (size_t i = 0; i < panel.boxes.size(); ++i) {
      const Panel::Box& box = panel.boxes[i];
      absl::StrAppend(&dot, "    ", prefix, i, " [label=", quoted(absl::StrJoin(box.lines, "\n")),
                      ", tooltip=", quoted(box.tooltip), ", fillcolor=\"", box.color, "\"",
                      box.border ? ", shape=ellipse" : "", "];\n");
    }
    for (const Panel::Arrow& arrow : panel.arrows) {
      absl::StrAppend(&dot, "    ", prefix, arrow.from, " -> ", prefix, arrow.to, " [label=", quoted(arrow.label),
                      "];\n");
    }
    dot += "  }\n";
  }
  return dot + "}\n";
}

}  // namespace tessera::client
