#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/hls/design.h"

namespace tessera::compiler::hls {

/// A pointer argument of an engine: one memory port.
struct PortArgument {
  std::string name, type;  ///< "in1", "const float *"
  int buffer = 0;          ///< of the kernel
  int bank = 0;
};

/// The C++ functions of one design: a function for each process and one that runs them.
struct Engine {
  std::string text;
  std::vector<PortArgument> ports;  ///< arguments of function `name`, in order
};

/// Writes the functions of a design; `name` is the engine's. Errors as sourcesOf().
absl::StatusOr<Engine> engineOf(const Design& design, const std::string& name, const Device& device);

/// The plain loops of a nest on arrays `b0`, `b1`, ... of its kernel's buffers, which are of their element types: the
/// body of a block.
absl::StatusOr<std::string> plainLoops(const simulator::SpatialNest& nest, const std::string& indent);

}  // namespace tessera::compiler::hls
