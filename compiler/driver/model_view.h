#pragma once

#include "compiler/ir/imported_model.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::compiler {

/// Returns the graph of an imported model before any rewrite. Its nodes are ONNX's nodes where these were recorded,
/// else one node for each operation. A node's work is that of the operations it was lowered to; a node that was
/// evaluated at import has none. Edges are tensors that are not constants.
v1::GraphView viewModel(const ImportedModel& model);

}  // namespace tessera::compiler
