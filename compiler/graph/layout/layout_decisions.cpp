#include "compiler/graph/layout/layout_decisions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_format.h"
#include "compiler/graph/analysis/node_names.h"

namespace tessera::compiler {
namespace {

/// Each alternative solves the whole problem once; for further conflicts only the transform's price is reported.
constexpr int kMaxAlternatives = 12;

std::string readerName(mlir::Operation* op) {
  if (op->hasTrait<mlir::OpTrait::IsTerminator>()) return "the caller";
  std::string name = firstNodeName(op->getLoc());
  return name.empty() ? op->getName().stripDialect().str() : name;
}

class Explainer {
 public:
  Explainer(const LayoutGraph& graph, const Labelling& labelling) : graph_(graph), labelling_(labelling) {}
  std::vector<v1::Decision> run();

 private:
  ChannelLayout chosen(int variable) const { return graph_.layout(variable, labelling_.labels[variable]); }
  double priceWith(LabellingProblem::Edge constraint);
  void explainEdge(const LayoutEdge& edge);
  void explainAnchor(const LayoutNode& node, size_t form);

  const LayoutGraph& graph_;
  const Labelling& labelling_;
  std::set<std::pair<void*, int64_t>> seen_;  // value and layout, because several readers share a transform
  int alternatives_ = 0;
  std::vector<v1::Decision> decisions_;
};

/// Returns the extra cost of the cheapest assignment under one more constraint; infinite if there is none.
double Explainer::priceWith(LabellingProblem::Edge constraint) {
  if (++alternatives_ > kMaxAlternatives) return std::numeric_limits<double>::quiet_NaN();
  LabellingProblem problem = graph_.problem();
  // A constraint on one variable adds to its own costs.
  if (constraint.a == constraint.b) {
    for (size_t label = 0; label < constraint.costs.size(); ++label) {
      problem.costs[constraint.a][label] += constraint.costs[label];
    }
  } else {
    problem.edges.push_back(std::move(constraint));
  }
  // Starts from the known labelling, so each alternative takes little time.
  return solveLabelling(problem, {labelling_.labels}).cost - labelling_.cost;
}

void Explainer::explainEdge(const LayoutEdge& edge) {
  if (edge.producer == edge.reader) return;
  const ChannelLayout from = chosen(edge.producer), to = chosen(edge.reader);
  auto type = mlir::cast<mlir::RankedTensorType>(edge.value.getType());
  const Channels channels = *graph_.roles().of(edge.value);
  // The same places in memory need no transform.
  if (samePlaces(type, channels, from, to)) return;
  if (!seen_.emplace(edge.value.getAsOpaquePointer(), to.block).second) return;
  // Forbids all pairs of layouts that differ, to learn what agreeing would cost.
  LabellingProblem::Edge agree{edge.producer, edge.reader, {}};
  const size_t rows = graph_.problem().costs[edge.producer].size();
  const size_t columns = graph_.problem().costs[edge.reader].size();
  for (size_t a = 0; a < rows; ++a) {
    for (size_t b = 0; b < columns; ++b) {
      const bool same = samePlaces(type, channels, graph_.layout(edge.producer, static_cast<int>(a)),
                                   graph_.layout(edge.reader, static_cast<int>(b)));
      agree.costs.push_back(same ? 0 : std::numeric_limits<double>::infinity());
    }
  }
  const double price = graph_.transformPrice(edge.value, from, to);
  const double more = priceWith(std::move(agree));
  v1::Decision decision;
  decision.set_kind("layout");
  decision.set_place(readerName(edge.reading));
  decision.set_taken(true);
  decision.set_cost(price);
  decision.set_unit("us");
  const std::string place = firstNodeName(edge.value.getLoc());
  std::string reason =
      absl::StrFormat("%s is transformed from %s to %s for %s: %.1f us", place.empty() ? "an input" : place,
                      layoutName(from, type.getRank() - channels.count + 1),
                      layoutName(to, type.getRank() - channels.count + 1), decision.place(), price);
  if (std::isinf(more)) {
    reason += "; no layout suits both";
  } else if (!std::isnan(more)) {
    decision.set_alternative_cost(price + more);
    reason += absl::StrFormat("; agreeing on one layout costs %.1f us", price + more);
  }
  decision.set_reason(std::move(reason));
  decisions_.push_back(std::move(decision));
}

void Explainer::explainAnchor(const LayoutNode& node, size_t form) {
  const int variable = node.variables[form];
  const std::vector<double>& costs = graph_.problem().costs[variable];
  const auto best = static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
  const double paid = costs[labelling_.labels[variable]] - costs[best];
  // Less than that is not worth a line.
  if (paid <= 0.1) return;
  // Forbids everything but the cheapest layout, to learn why it was not taken.
  LabellingProblem::Edge preferred{variable, variable, std::vector<double>(costs.size(), 0)};
  for (size_t label = 0; label < costs.size(); ++label) {
    if (static_cast<int>(label) != best) preferred.costs[label] = std::numeric_limits<double>::infinity();
  }
  const double more = priceWith(std::move(preferred));
  if (std::isnan(more)) return;
  v1::Decision decision;
  decision.set_kind("layout");
  decision.set_place(readerName(node.op));
  decision.set_taken(false);
  decision.set_cost(paid);
  decision.set_unit("us");
  const int64_t rank = mlir::cast<mlir::RankedTensorType>(node.op->getOperand(0).getType()).getRank() -
                       node.forms[form].channels.count + 1;
  const bool reads = form < node.op->getNumOperands() - node.op->getNumResults();
  std::string reason =
      absl::StrFormat("%s %s %s: %s would be %.1f us faster here", decision.place(), reads ? "reads" : "writes",
                      layoutName(chosen(variable), rank), layoutName(graph_.layout(variable, best), rank), paid);
  if (std::isinf(more)) {
    reason += " and fits nothing around it";
  } else {
    decision.set_alternative_cost(paid + more);
    reason += absl::StrFormat(" and cost %.1f us of transforms and slower neighbours", paid + more);
  }
  decision.set_reason(std::move(reason));
  decisions_.push_back(std::move(decision));
}

std::vector<v1::Decision> Explainer::run() {
  for (const LayoutEdge& edge : graph_.edges()) explainEdge(edge);
  for (const LayoutNode& node : graph_.nodes()) {
    if (!node.anchor) continue;
    std::set<int> explained;
    for (size_t form = 0; form < node.forms.size(); ++form) {
      if (node.variables[form] >= 0 && explained.insert(node.variables[form]).second) explainAnchor(node, form);
    }
  }
  return std::move(decisions_);
}

}  // namespace

std::vector<v1::Decision> explainLayouts(const LayoutGraph& graph, const Labelling& labelling) {
  return Explainer(graph, labelling).run();
}

}  // namespace tessera::compiler
