#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

/// A tensor graph for tiling loop fusion (TLF): shapes, access functions and work. Plain values.
namespace tessera::compiler::fusion {

/// How one dimension of an input depends on an output dimension: output point i reads points [stride * i - padding,
/// stride * i - padding + window); or every point reads the whole dimension.
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
  /// Smallest shape at run time, if a run may compute less than `shape`; empty: every run computes `shape`.
  std::vector<int64_t> min_shape = {};
};

struct GraphNode {
  enum class Kind {
    kLocal,            ///< every output point needs a bounded part of the inputs
    kGlobalReduction,  ///< needs a whole feature map: never in a region of several nodes
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

/// Nodes in an executable order; at most one node writes each tensor.
struct RegionGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphNode> nodes;
  std::vector<int> outputs;  ///< tensors that must be in the farthest memory at the end

  int producerOf(int tensor) const;  ///< position in nodes; -1 for inputs and weights
  std::vector<int> consumersOf(int tensor) const;
  bool isOutput(int tensor) const;

  /// Builds lookup tables for producers and consumers. Call it once all nodes and outputs are added.
  void index();

 private:
  std::vector<int> producers_;               // by tensor; empty until index()
  std::vector<std::vector<int>> consumers_;  // by tensor
  std::vector<bool> is_output_;              // by tensor
};

/// Returns OK, or INVALID_ARGUMENT naming the faulty node.
absl::Status validate(const RegionGraph& graph);

}  // namespace tessera::compiler::fusion
