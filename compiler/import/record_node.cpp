// Records the model's nodes with the operations they became, for reports.
#include <set>

#include "compiler/import/graph_importer.h"
#include "compiler/import/graph_order.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {
namespace {

v1::TensorSpec specOf(const std::string& name, const Tensor& tensor) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_dtype(storageType(tensor.dtype));
  for (int64_t extent : tensor.shape) spec.add_shape(extent);
  return spec;
}

/// Collects the names that a node reads, including those of its subgraphs.
void collectReads(const onnx::NodeProto& node, std::set<std::string>& seen, std::vector<std::string>& names) {
  for (const std::string& name : node.input()) {
    if (!name.empty() && seen.insert(name).second) names.push_back(name);
  }
  for (const auto& attribute : node.attribute()) {
    for (const auto& inner : attribute.g().node()) collectReads(inner, seen, names);
    for (const auto& output : attribute.g().output()) {
      if (seen.insert(output.name()).second) names.push_back(output.name());
    }
  }
}

}  // namespace

void GraphImporter::recordNode(const onnx::NodeProto& proto, int index, const Scope& scope, mlir::Operation* last) {
  ImportedModel::Node& node = result_.graph.emplace_back();
  node.name = nodeLabel(proto, index);
  node.op_type = proto.domain().empty() ? proto.op_type() : proto.domain() + "." + proto.op_type();
  std::set<std::string> seen;
  std::vector<std::string> names;
  collectReads(proto, seen, names);
  for (const std::string& name : names) {
    // Names that a subgraph defines itself are unknown here.
    if (const Tensor* value = scope.find(name)) node.inputs.push_back(specOf(name, *value));
  }
  for (const std::string& name : proto.output()) {
    if (name.empty()) continue;
    if (const Tensor* value = scope.find(name)) node.outputs.push_back(specOf(name, *value));
  }
  mlir::Block& body = main_.getBody().front();
  mlir::Operation* op = last ? last->getNextNode() : (body.empty() ? nullptr : &body.front());
  for (; op; op = op->getNextNode()) node.became.push_back(op);
}

}  // namespace tessera::compiler
