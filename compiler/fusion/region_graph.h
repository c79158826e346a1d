#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

/// A tensor graph as tiling loop fusion (TLF) sees it: shapes, access functions and work. Plain values.
namespace tessera::compiler::fusion {

/// How one dimension of an input follows from an output dimension: points
/// [stride * i - padding, stride * i - padding + window) for output point i; or all of it, whatever the point.
struct DimAccess {
  int output_dim = -1;  ///< -1: the whole extent
  int64_t stride = 1;
  int64_t window = 1;   ///< dilation included
  int64_t padding = 0;  ///< before the first point
};

struct GraphTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t element_bytes = 4;
  bool constant = false;  ///< weights
  /// Per dimension: how much of it the smallest run computes, where a run may have less than `shape`; empty: all.
  std::vector<int64_t> fewest = {};
};

struct GraphNode {
  enum class Kind {
    kLocal,            ///< every output point needs a bounded part of its inputs
    kGlobalReduction,  ///< needs a whole feature map: never inside a region of several nodes
  };
  struct Input {
    int tensor = 0;
    std::vector<DimAccess> access;  ///< one per dimension of the tensor
  };
  std::string name;
  Kind kind = Kind::kLocal;
  std::vector<Input> inputs;
  int output = 0;
  double flops_per_point = 1;  ///< per element of the output
};

/// Nodes in an order in which they can run; each tensor is written by at most one of them.
struct RegionGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphNode> nodes;
  std::vector<int> outputs;  ///< tensors that must end in the farthest memory

  int producerOf(int tensor) const;  ///< position in nodes, -1 for inputs and weights
  std::vector<int> consumersOf(int tensor) const;
  bool isOutput(int tensor) const;

  /// Once all nodes and outputs are there: answers come from tables instead of searches through all nodes.
  void index();

 private:
  std::vector<int> producers_;               // by tensor; empty until index()
  std::vector<std::vector<int>> consumers_;  // by tensor
  std::vector<bool> is_output_;              // by tensor
};

/// OK, or INVALID_ARGUMENT naming the node at fault.
absl::Status validate(const RegionGraph& graph);

}  // namespace tessera::compiler::fusion
