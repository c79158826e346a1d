#pragma once

#include <string>
#include <vector>

#include "compiler/fusion/region_graph.h"

namespace tessera::compiler::fusion {

/// Builds graphs node by node. Every call returns the tensor it made.
class RegionGraphBuilder {
 public:
  int input(const std::string& name, std::vector<int64_t> shape, bool constant = false);
  /// NCHW convolution with weights of its own; `padding` on all sides.
  int convolution(const std::string& name, int from, int64_t channels, int64_t window, int64_t stride, int64_t padding);
  /// One operation per point on tensors of one shape (batch normalization: two inputs less, two operations).
  int elementwise(const std::string& name, std::vector<int> inputs, double flops_per_point = 1);
  int globalAveragePool(const std::string& name, int from);
  RegionGraph finish(std::vector<int> outputs);

 private:
  RegionGraph graph_;
};

}  // namespace tessera::compiler::fusion
