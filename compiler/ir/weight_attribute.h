#pragma once

namespace tessera::compiler {

/// The attribute of an argument that is a weight: its index into ImportedModel.weights.
inline constexpr char kWeightAttribute[] = "tessera.weight";

}  // namespace tessera::compiler
