#pragma once

#include <string>
#include <vector>

#include "compiler/fusion/region_graph.h"

namespace tessera::compiler::fusion {

/// Builds graphs node by node. Every call returns the new tensor.
class RegionGraphBuilder {
 public:
  int input(const std::string& name, std::vector<int64_t> shape, bool constant = false);
  /// Adds an NCHW convolution with its own weights; `padding` on all sides.
  int convolution(const std::string& name, int from, int64_t channels, int64_t window, int64_t stride, int64_t padding);
  /// Adds one operation per point on tensors of one shape (batch normalization has two inputs less and two operations).
  int elementwise(const std::string& name, std::vector<int> inputs, double flops_per_point = 1);
  int globalAveragePool(const std::string& name, int from);
  RegionGraph finish(std::vector<int> outputs);

 private:
  RegionGraph graph_;
};

}  // namespace tessera::compiler::fusion
