#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/hls/search.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/spatial.pb.h"

/// The design of a workload: one engine per nest, called in order.
namespace tessera::compiler::hls {

struct Program {
  std::string name = {};
  v1::SpatialKernel kernel = {};
  simulator::CheckedKernel checked = {};  ///< of `kernel`
  std::vector<Form> forms = {};           ///< point into `checked`
  std::vector<Design> designs = {};       ///< one per form; point into `forms`
  Resources resources = {};               ///< of all engines
  double cycles = 0;                      ///< predicted, of all calls
  SearchCount count = {};
  double floatingOperations() const;  ///< operations of all nests' bodies on numbers, each point once
};

/// Searches the designs of a kernel's nests. They share the device: each gets a part of it by its share of the work.
/// `name` is a C++ identifier. Errors: INVALID_ARGUMENT for a kernel that fails its checks; FAILED_PRECONDITION naming
/// the nest, and the operation without cost or the resource that is exceeded.
absl::StatusOr<Program> designKernel(const v1::SpatialKernel& kernel, const std::string& name, const Device& device);

/// The schedule of a program's kernel: one phase per design.
v1::Schedule scheduleOf(const Program& program, const Device& device);

/// An operator as a kernel: its statements in order; a sum without an initial value starts from zero. The element types
/// are those of the nest's accesses; products of integers are sums of extended factors in the result's type. Operands
/// are inputs in the order of their first use, then results. UNIMPLEMENTED naming the operation or the bound that
/// kernels cannot express.
absl::StatusOr<v1::SpatialKernel> kernelOf(const loopnest::Nest& nest);

}  // namespace tessera::compiler::hls
