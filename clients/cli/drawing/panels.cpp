#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/drawing/picture.h"
#include "clients/cli/output.h"

namespace tessera::client {
namespace {

constexpr size_t kLineLength = 44;

std::string shortened(const std::string& text) {
  if (text.size() <= kLineLength) return text;
  size_t end = kLineLength - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // do not cut a UTF-8 character
  return text.substr(0, end) + "...";
}

/// Colour by the kind of work of a node. Both forms of names occur: "Conv", "conv2d 3x3 ...".
std::string colorOf(const std::string& op, int64_t flops) {
  const std::string lower = [&] {
    std::string text = op;
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return text;
  }();
  const auto has = [&](const char* word) { return lower.find(word) != std::string::npos; };
  if (has("conv")) return "#cfe3ff";
  if (has("matmul") || has("gemm") || has("lstm") || has("gru")) return "#d9d2f7";
  if (has("pool") || has("reduce") || has("softmax") || has("norm")) return "#ffe2c2";
  return flops > 0 ? "#dff3d8" : "#eeeeee";
}

std::string workText(const v1::GraphView::Node& node) {
  if (node.bytes() == 0) return "";
  std::string text =
      absl::StrCat(absl::StrFormat("%.2f MFLOP, ", static_cast<double>(node.flops()) / 1e6), bytesText(node.bytes()));
  if (node.flops() > 0) {
    absl::StrAppendFormat(&text, ", %.2f flop/B",
                          static_cast<double>(node.flops()) / static_cast<double>(node.bytes()));
  }
  return text;
}

Panel panelOf(const v1::GraphView& view, const std::string& title) {
  Panel panel;
  panel.title = title;
  std::map<std::string, int> inputs;
  for (const auto& edge : view.edges()) {
    const std::string& name = edge.tensor().name();
    if (edge.from() >= 0 || inputs.contains(name)) continue;
    inputs[name] = static_cast<int>(panel.boxes.size());
    panel.boxes.push_back({{shortened(name), typeText(edge.tensor())}, name, "#ffffff", true});
  }
  std::map<int, int> places;  // node id -> box index
  for (const auto& node : view.nodes()) {
    places[node.id()] = static_cast<int>(panel.boxes.size());
    Panel::Box& box = panel.boxes.emplace_back();
    box.lines = {shortened(node.op()), shortened(node.name())};
    if (const std::string work = workText(node); !work.empty()) box.lines.push_back(work);
    if (!node.layout().empty()) box.lines.push_back(node.layout());
    box.tooltip = absl::StrCat(node.op(), "\n", node.name());
    box.color = colorOf(node.op(), node.flops());
  }
  std::map<std::string, int> outputs;
  for (const auto& edge : view.edges()) {
    const auto from = places.find(edge.from());
    const auto to = places.find(edge.to());
    if (edge.from() >= 0 && from == places.end()) continue;
    const int start = edge.from() < 0 ? inputs.at(edge.tensor().name()) : from->second;
    if (edge.to() >= 0) {
      if (to != places.end()) panel.arrows.push_back({start, to->second, typeText(edge.tensor())});
      continue;
    }
    const std::string& name = edge.tensor().name();
    auto [output, fresh] = outputs.emplace(name, static_cast<int>(panel.boxes.size()));
    if (fresh) panel.boxes.push_back({{shortened(name), typeText(edge.tensor())}, name, "#ffffff", true});
    panel.arrows.push_back({start, output->second, typeText(edge.tensor())});
  }
  return panel;
}

}  // namespace

std::vector<Panel> panelsOf(const v1::Explanation& explanation) {
  std::vector<Panel> panels;
  if (const int nodes = explanation.before().nodes_size(); nodes > 0) {
    panels.push_back(panelOf(explanation.before(), absl::StrCat("model: ", nodes, " nodes")));
  }
  if (const int groups = explanation.after().nodes_size(); groups > 0) {
    panels.push_back(panelOf(explanation.after(), absl::StrCat("compiled: ", groups, " groups")));
  }
  return panels;
}

}  // namespace tessera::client
