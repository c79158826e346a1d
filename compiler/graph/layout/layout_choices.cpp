#include "compiler/graph/layout/layout_choices.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/graph/facts/node_names.h"

namespace tessera::compiler {
namespace {

constexpr char kLayoutChoice[] = "layout";

/// Positions of the forms that are activations.
std::vector<size_t> activationsOf(const LayoutNode& node) {
  std::vector<size_t> forms;
  for (size_t form = 0; form < node.forms.size(); ++form)
    if (node.variables[form] >= 0) forms.push_back(form);
  return forms;
}

std::string nameOf(const LayoutGraph& graph, const LayoutNode& node, size_t form, int label) {
  const int64_t rank = mlir::cast<mlir::RankedTensorType>(node.value(form).getType()).getRank();
  return layoutName(graph.layout(node.variables[form], label), rank - node.forms[form].channels.count + 1);
}

int labelsOf(const LayoutGraph& graph, const LayoutNode& node, size_t form) {
  return static_cast<int>(graph.problem().costs[node.variables[form]].size());
}

}  // namespace

std::vector<AnchorLayouts> anchorsOf(const LayoutGraph& graph, GraphChoices& choices) {
  std::vector<AnchorLayouts> anchors;
  for (const LayoutNode& node : graph.nodes()) {
    if (!node.anchor) continue;
    const std::string place = choices.place(kLayoutChoice, nodeNames({node.op->getLoc()}));
    anchors.push_back({&node, place, choices.pinned(kLayoutChoice, place)});
  }
  return anchors;
}

LabellingProblem pinLayouts(const std::vector<AnchorLayouts>& anchors, const LayoutGraph& graph,
                            std::vector<std::vector<int>>& starts, GraphChoices& choices) {
  LabellingProblem problem = graph.problem();
  for (const AnchorLayouts& anchor : anchors) {
    if (anchor.pinned.empty()) continue;
    const std::vector<std::string> wanted = absl::StrSplit(anchor.pinned, ' ');
    const std::vector<size_t> forms = activationsOf(*anchor.node);
    if (wanted.size() != forms.size()) {
      choices.refuse(kLayoutChoice, anchor.place, absl::StrCat("it has ", forms.size(), " activations"),
                     absl::StrCat(forms.size(), " layouts with a blank between them"));
      continue;
    }
    for (size_t i = 0; i < forms.size(); ++i) {
      std::vector<std::string> names;
      int found = -1;
      for (int label = 0; label < labelsOf(graph, *anchor.node, forms[i]); ++label) {
        names.push_back(nameOf(graph, *anchor.node, forms[i], label));
        if (names.back() == wanted[i]) found = label;
      }
      if (found < 0) {
        choices.refuse(kLayoutChoice, anchor.place, absl::StrCat("activation ", i, " has no layout ", wanted[i]),
                       absl::StrJoin(names, ", "));
        continue;
      }
      const int variable = anchor.node->variables[forms[i]];
      for (size_t other = 0; other < problem.costs[variable].size(); ++other)
        if (static_cast<int>(other) != found) problem.costs[variable][other] = std::numeric_limits<double>::infinity();
      for (std::vector<int>& start : starts) start[variable] = found;
    }
  }
  return problem;
}

void refuseTogether(const std::vector<AnchorLayouts>& anchors, GraphChoices& choices) {
  for (const AnchorLayouts& anchor : anchors)
    if (!anchor.pinned.empty())
      return choices.refuse(kLayoutChoice, anchor.place, "no layouts of the rest suit this and the other pins",
                            "fewer pinned layouts, or ones that agree");
}

void recordLayouts(const std::vector<AnchorLayouts>& anchors, const LayoutGraph& graph, const Labelling& labelling,
                   GraphChoices& choices) {
  for (const AnchorLayouts& anchor : anchors) {
    std::vector<std::string> names;
    for (size_t form : activationsOf(*anchor.node))
      names.push_back(nameOf(graph, *anchor.node, form, labelling.labels[anchor.node->variables[form]]));
    choices.made(kLayoutChoice, anchor.place, absl::StrJoin(names, " "));
  }
}

}  // namespace tessera::compiler
