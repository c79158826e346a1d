#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/backends/spatial/spatial_nest.h"
#include "compiler/loopnest/subscript.h"

/// Bodies and subscripts of nests in OpenCL C.
namespace tessera::compiler::opencl {

/// A subscript as an expression in the variables `names`, one per loop of the nest. `wide`: products are computed in 64
/// bits.
std::string subscriptCode(const loopnest::Subscript& subscript, std::span<const std::string> names, bool wide);

/// The names of loops, elements and buffers in the code around a body.
struct BodyNames {
  std::vector<std::string> loops;     ///< variables, one per loop
  std::vector<std::string> values;    ///< one per access: an expression for the element
  std::vector<std::string> pointers;  ///< per buffer of the kernel
  std::string prefix = "v";           ///< of the names of results
};

/// What the statements of a body need and give.
struct BodyCode {
  std::string statements;  ///< one line each, indented by `indent`
  std::vector<std::string> yields;
  bool checks_indices = false;  ///< faults[step] is set for an index outside of its buffer
};

/// The statements that compute one point. `elements`: of each buffer of the kernel.
BodyCode bodyCode(const simulator::SpatialNest& nest, const BodyNames& names, std::span<const int64_t> elements,
                  const std::string& indent);

}  // namespace tessera::compiler::opencl
