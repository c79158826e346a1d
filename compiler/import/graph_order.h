#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tessera::compiler {

/// A node's name, or "#index (OpType)" for one without.
std::string nodeLabel(const onnx::NodeProto& node, int index);

/// Something wrong with the graph at one of its nodes.
struct OrderFault {
  int node;
  absl::Status status;
};

/// The nodes on which the graph's outputs depend, producers before consumers, otherwise in file order.
/// ONNX demands that files are sorted; unsorted ones are accepted as long as there is no cycle.
/// INVALID_MODEL: a value defined twice, a value nobody defines, a cycle (naming its nodes).
/// `known` says whether a name comes from outside: an input, an initializer, an enclosing graph.
/// With `faults`, errors go there: the first definition of a value counts, nodes of a cycle and behind it are left out.
absl::StatusOr<std::vector<int>> orderNodes(const onnx::GraphProto& graph,
                                            const std::function<bool(const std::string&)>& known,
                                            std::vector<OrderFault>* faults = nullptr);

}  // namespace tessera::compiler
