#pragma once

#include "compiler/ir/imported_model.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::compiler {

/// An imported model as its own nodes, before any rewrite: ONNX's where they were recorded, else one node for each
/// operation. Work is that of what a node became; a node that was computed at import has none. An edge is a tensor
/// that is not a constant.
v1::GraphView viewModel(const ImportedModel& model);

}  // namespace tessera::compiler
