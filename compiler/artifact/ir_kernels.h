#pragma once

#include <string>
#include <vector>

#include "tessera/v1/plan.pb.h"

/// For tests: kernels written as LLVM IR, and a small plan that uses them.
namespace tessera::compiler {

/// Compiles IR for this machine; the last operand is the result. Aborts the process when the IR does not parse.
v1::BuiltObject compileIr(const std::string& ir, const std::string& workload_hash,
                          const std::vector<v1::KernelInfo::Phase>& phases, int64_t workspace_bytes = 0,
                          int64_t scratch_bytes = 0);

v1::KernelInfo::Phase phaseOf(const std::string& symbol, int64_t grid);

/// A model of two steps over vectors of `n` f32, for the target "host":
///   h = x + w          ("add": one phase; w is a weight, h lives in the arena)
///   y[i] = 2 h[n-1-i]  ("mirror": doubles into the workspace, then mirrors: wrong without the barrier)
struct SmallModel {
  /// `suffix` is appended to the names of workloads and functions, so that several can be linked together.
  explicit SmallModel(int64_t n, const std::string& suffix = "");
  v1::Plan plan;
  std::vector<v1::BuiltObject> objects;
  std::vector<float> weights;  ///< the weights section: w[i] = i / 2
};

/// Faults to build into a kernel.
struct Stray {
  int64_t read_bytes = 0, write_bytes = 0;  ///< distance from the correct address of its reads, and of its writes
  int64_t missing = 0;                      ///< elements that it omits at the end
  bool into_argument = false;               ///< writes to its argument
};
/// The model with another last step, which copies h to y in one piece with the given faults.
SmallModel strayModel(int64_t n, const Stray& stray);

/// The model with one variant for each of `sizes`, which must be distinct; the model's dimension is called "n".
SmallModel smallModelVariants(const std::vector<int64_t>& sizes);

}  // namespace tessera::compiler
