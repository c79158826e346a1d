#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/backends/opencl/nest_plan.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "tessera/v1/opencl.pb.h"

/// Nests as functions of OpenCL C. A function has two parameters for each buffer that its nest accesses: memory `mB`
/// and the offset `oB` of buffer B in it, in bytes; so that buffers can be parts of one arena.
namespace tessera::compiler::opencl {

/// A function and how it is called.
struct FunctionCode {
  std::string source;
  v1::OpenClKernel::Launch launch;
};

/// The buffers that nests access, each once, in the order of their accesses.
class Parameters {
 public:
  /// `without`: a buffer that no code accesses, because its elements stay in registers.
  Parameters(std::span<const simulator::SpatialNest* const> nests, const simulator::CheckedKernel& kernel,
             int without = -1);

  /// "b3": the pointer to the elements of buffer 3. Empty for buffers without an access.
  const std::vector<std::string>& pointers() const { return pointers_; }
  /// The head of the function up to the declarations of the pointers.
  std::string head(const std::string& function, const std::string& display, const std::string& attributes,
                   bool checks_indices) const;
  void addTo(v1::OpenClKernel::Launch& launch) const;
  /// Whether a position in one of the buffers may exceed 32 bits on the way.
  bool wide() const { return wide_; }

 private:
  struct Parameter {
    int buffer = 0;
    v1::DataType dtype = v1::DATA_TYPE_F32;
    bool written = false;
  };
  std::vector<Parameter> parameters_;
  std::vector<std::string> pointers_;
  bool wide_ = false;
};

/// A function in which each work-item computes one point of the parallel loops, and the points of the others in order.
/// `start`: the value from which the outputs start (keepsOutputs()); empty: their content.
FunctionCode itemsFunction(const std::string& function, const simulator::SpatialNest& nest,
                           const simulator::CheckedKernel& kernel, const NestPlan& plan, const std::string& start);

/// A function in which the work-items of a group share each point of the parallel loops: each combines a part of the
/// point's values (reductionOf()), and a tree in local memory combines the parts. `start`: as above; it comes last.
FunctionCode treeFunction(const std::string& function, const simulator::SpatialNest& nest,
                          const simulator::CheckedKernel& kernel, const NestPlan& plan, const std::string& start);

/// A function that multiplies matrices: a work-group copies a block of each factor to local memory, and each work-item
/// adds the products of a block of results in registers. `from_zero`: the old content of the output counts as zero.
/// `epilogue`: computed for each result, which is then not stored; null without one.
FunctionCode productFunction(const std::string& function, const simulator::SpatialNest& nest,
                             const simulator::CheckedKernel& kernel, const MatrixForm& form, const ProductTiles& tiles,
                             bool from_zero, const Epilogue* epilogue);

}  // namespace tessera::compiler::opencl
