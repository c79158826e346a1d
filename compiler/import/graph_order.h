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

/// Returns a node's name, or "#index (OpType)" if it has none.
std::string nodeLabel(const onnx::NodeProto& node, int index);

/// A problem of the graph at one of its nodes.
struct OrderError {
  int node;
  absl::Status status;
};

/// Returns the nodes on which the graph's outputs depend, producers before consumers, otherwise in file order. ONNX
/// requires sorted files; unsorted ones are accepted if they have no cycle. Fails with INVALID_MODEL for a value
/// defined twice, a value without definition, or a cycle (naming its nodes). `known` tells whether a name is defined
/// outside: an input, an initializer, an enclosing graph. With `faults`, errors are appended there instead: the first
/// definition of a value counts, and nodes on or after a cycle are left out.
absl::StatusOr<std::vector<int>> orderNodes(const onnx::GraphProto& graph,
                                            const std::function<bool(const std::string&)>& known,
                                            std::vector<OrderError>* faults = nullptr);

}  // namespace tessera::compiler
