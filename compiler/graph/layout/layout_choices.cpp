#include "compiler/graph/layout/layout_choices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/summary.h"

namespace tessera::compiler {
namespace {

constexpr char kLayoutChoice[] = "layout";

/// Returns the positions of the forms that are activations.
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

/// Prices other layouts of one operation while all others keep theirs. This is an upper bound, because the neighbours
/// of a pinned operation may adapt.
class Alternatives {
 public:
  Alternatives(const LayoutGraph& graph, const Labelling& labelling)
      : graph_(graph), labels_(labelling.labels), edges_(graph.problem().costs.size()) {
    for (const LabellingProblem::Edge& edge : graph.problem().edges)
      for (const int variable : {edge.a, edge.b}) edges_[variable].push_back(&edge);
  }

  /// Returns the labels as "NCHW NCHW16c".
  std::string name(const LayoutNode& node) const;
  void addTo(v1::Choice& made, const LayoutNode& node);

 private:
  double ownPrice(const std::set<int>& variables) const;
  double priceAround(const std::set<int>& variables) const;

  const LayoutGraph& graph_;
  std::vector<int> labels_;
  std::vector<std::vector<const LabellingProblem::Edge*>> edges_;  // by variable
};

int labelsOf(const LayoutGraph& graph, const LayoutNode& node, size_t form) {
  return static_cast<int>(graph.problem().costs[node.variables[form]].size());
}

double Alternatives::ownPrice(const std::set<int>& variables) const {
  double price = 0;
  for (const int variable : variables) price += graph_.problem().costs[variable][labels_[variable]];
  return price;
}

/// Returns the cost of the variables and of their edges.
double Alternatives::priceAround(const std::set<int>& variables) const {
  std::set<const LabellingProblem::Edge*> edges;
  for (const int variable : variables) edges.insert(edges_[variable].begin(), edges_[variable].end());
  std::vector<double> costs;
  for (const LabellingProblem::Edge* edge : edges)
    costs.push_back(edge->costs[(labels_[edge->a] * graph_.problem().costs[edge->b].size()) + labels_[edge->b]]);
  std::ranges::sort(costs);  // equal operations get equal prices, whatever the order of their edges in memory
  return std::accumulate(costs.begin(), costs.end(), ownPrice(variables));
}

std::string Alternatives::name(const LayoutNode& node) const {
  std::vector<std::string> names;
  for (const size_t form : activationsOf(node))
    names.push_back(nameOf(graph_, node, form, labels_[node.variables[form]]));
  return absl::StrJoin(names, " ");
}

void Alternatives::addTo(v1::Choice& made, const LayoutNode& node) {
  std::set<int> variables;
  for (const size_t form : activationsOf(node)) variables.insert(node.variables[form]);
  const double own = ownPrice(variables), around = priceAround(variables);
  made.set_cost_us(own);
  for (const int variable : variables) {
    const int chosen = labels_[variable];
    for (int label = 0; label < static_cast<int>(graph_.problem().costs[variable].size()); ++label) {
      if (label == chosen) continue;
      labels_[variable] = label;
      const double price = own + priceAround(variables) - around;
      if (std::isfinite(price)) addAlternative(made, name(node), price);
    }
    labels_[variable] = chosen;
  }
}

}  // namespace

std::vector<AnchorLayouts> anchorsOf(const LayoutGraph& graph, GraphChoices& choices) {
  std::vector<AnchorLayouts> anchors;
  for (const LayoutNode& node : graph.nodes()) {
    if (!node.anchor) continue;
    const std::string place = choices.nextPlace(kLayoutChoice, nodeNames({node.op->getLoc()}));
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
      return choices.refuse(kLayoutChoice, anchor.place,
                            "no layouts of the other operations satisfy this and the other pins",
                            "fewer pinned layouts, or ones that agree");
}

void recordLayouts(const std::vector<AnchorLayouts>& anchors, const LayoutGraph& graph, const Labelling& labelling,
                   double error, GraphChoices& choices) {
  Alternatives alternatives(graph, labelling);
  for (const AnchorLayouts& anchor : anchors) {
    v1::Choice& made = choices.record(kLayoutChoice, anchor.place, alternatives.name(*anchor.node));
    made.set_subject(operationsText(anchor.node->op));
    made.set_error(error);
    alternatives.addTo(made, *anchor.node);
  }
}

}  // namespace tessera::compiler
