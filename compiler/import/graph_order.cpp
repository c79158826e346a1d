#include "compiler/import/graph_order.h"

#include <queue>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/limits.h"
#include "compiler/import/model_error.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

std::string named(const onnx::GraphProto& graph, int index) {
  const onnx::NodeProto& node = graph.node(index);
  if (node.name().empty()) return nodeLabel(node, index);
  return absl::StrCat("'", printable(node.name()), "' (", printable(node.op_type()), ")");
}

/// Collects the names that subgraphs of a node use, including their own. limits.h bounds the recursion.
void collectCaptures(const onnx::NodeProto& node, std::vector<const std::string*>& names) {
  // A subgraph reads outer values by name, without listing them as inputs.
  auto visit = [&](const onnx::GraphProto& graph) {
    for (const auto& inner : graph.node()) {
      for (const auto& input : inner.input()) names.push_back(&input);
      collectCaptures(inner, names);
    }
    for (const auto& output : graph.output()) names.push_back(&output.name());
  };
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) visit(attribute.g());
    for (const auto& graph : attribute.graphs()) visit(graph);
  }
}

class Order {
 public:
  Order(const onnx::GraphProto& graph, const std::function<bool(const std::string&)>& known,
        std::vector<OrderError>* faults)
      : graph_(graph), known_(known), faults_(faults), producers_(graph.node_size()) {}

  absl::StatusOr<std::vector<int>> run() {
    TESSERA_RETURN_IF_ERROR(define());
    TESSERA_RETURN_IF_ERROR(connect());
    std::vector<std::vector<int>> consumers(producers_.size());
    std::vector<int> waiting(producers_.size());
    // The smallest index first: a file in valid order keeps its order.
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t node = 0; node < producers_.size(); ++node) {
      for (int producer : producers_[node]) consumers[producer].push_back(static_cast<int>(node));
      waiting[node] = static_cast<int>(producers_[node].size());
      if (waiting[node] == 0) ready.push(static_cast<int>(node));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int node = ready.top();
      ready.pop();
      order.push_back(node);
      for (int consumer : consumers[node]) {
        if (--waiting[consumer] == 0) ready.push(consumer);
      }
    }
    // Nodes that never became ready wait for each other.
    if (order.size() < producers_.size()) TESSERA_RETURN_IF_ERROR(cycle(waiting));
    // Nodes that no output needs are left out: they need not even be supported.
    const std::vector<bool> live = liveNodes();
    std::erase_if(order, [&](int node) { return !live[node]; });
    return order;
  }

 private:
  absl::Status define() {
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const std::string& output : graph_.node(i).output()) {
        if (output.empty()) continue;
        auto [other, fresh] = defined_.emplace(output, i);
        if (fresh) continue;
        TESSERA_RETURN_IF_ERROR(invalid(i,
                                        absl::StrCat("value '", printable(output), "' is defined by node ",
                                                     named(graph_, i), " and by node ", named(graph_, other->second)),
                                        output, "each value defined once"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status connect() {
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const std::string& input : graph_.node(i).input()) {
        if (input.empty()) continue;
        if (auto producer = defined_.find(input); producer != defined_.end()) {
          producers_[i].push_back(producer->second);
        } else if (!known_(input)) {
          TESSERA_RETURN_IF_ERROR(invalid(
              i, absl::StrCat("node ", named(graph_, i), " reads '", printable(input), "', which nothing defines"),
              input, "an input, an initializer or another node's output"));
        }
      }
      // A captured name may also be a value of the subgraph itself; it then orders nodes without need, which is
      // harmless.
      std::vector<const std::string*> captures;
      collectCaptures(graph_.node(i), captures);
      for (const std::string* name : captures) {
        auto producer = defined_.find(*name);
        if (producer != defined_.end() && producer->second != i) producers_[i].push_back(producer->second);
      }
    }
    return absl::OkStatus();
  }

  std::vector<bool> liveNodes() const {
    std::vector<bool> live(producers_.size(), false);
    std::vector<int> stack;
    auto reach = [&](int node) {
      if (live[node]) return;
      live[node] = true;
      stack.push_back(node);
    };
    for (const auto& output : graph_.output()) {
      if (auto producer = defined_.find(output.name()); producer != defined_.end()) reach(producer->second);
    }
    while (!stack.empty()) {
      const int node = stack.back();
      stack.pop_back();
      for (int producer : producers_[node]) reach(producer);
    }
    return live;
  }

  /// Every waiting node depends on another waiting node, so following these dependencies ends in a cycle.
  absl::Status cycle(const std::vector<int>& waiting) const {
    int node = 0;
    while (waiting[node] == 0) ++node;
    std::vector<int> path;
    std::vector<int> seen_at(waiting.size(), -1);
    while (seen_at[node] < 0) {
      seen_at[node] = static_cast<int>(path.size());
      path.push_back(node);
      for (int producer : producers_[node]) {
        if (waiting[producer] > 0) {
          node = producer;
          break;
        }
      }
    }
    path.erase(path.begin(), path.begin() + seen_at[node]);
    std::vector<std::string> names;
    for (int step : path) {
      if (names.size() == limits::kListedFaults) break;
      names.push_back(named(graph_, step));
    }
    return invalid(node,
                   absl::StrCat("the graph has a cycle of ", path.size(), " nodes: ", absl::StrJoin(names, " <- "),
                                names.size() < path.size() ? " <- ..." : ""),
                   "", "an acyclic graph");
  }

  /// Returns an error, or OK if errors are collected.
  absl::Status invalid(int node, const std::string& message, const std::string& value,
                       const std::string& accepted) const {
    absl::Status status = fault(v1::Failure::INVALID_MODEL, message,
                                {.attribute = value,
                                 .found = message,
                                 .accepted = accepted,
                                 .node = nodeLabel(graph_.node(node), node),
                                 .op_type = graph_.node(node).op_type()});
    if (!faults_) return status;
    faults_->push_back({node, std::move(status)});
    return absl::OkStatus();
  }

  const onnx::GraphProto& graph_;
  const std::function<bool(const std::string&)>& known_;
  std::vector<OrderError>* faults_;
  std::vector<std::vector<int>> producers_;
  std::unordered_map<std::string, int> defined_;
};

}  // namespace

std::string nodeLabel(const onnx::NodeProto& node, int index) {
  if (!node.name().empty()) return node.name();
  return absl::StrCat("#", index, " (", node.op_type(), ")");
}

absl::StatusOr<std::vector<int>> orderNodes(const onnx::GraphProto& graph,
                                            const std::function<bool(const std::string&)>& known,
                                            std::vector<OrderError>* faults) {
  return Order(graph, known, faults).run();
}

}  // namespace tessera::compiler
