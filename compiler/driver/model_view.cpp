#include "compiler/driver/model_view.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/summary.h"
#include "compiler/import/element_type.h"
#include "compiler/import/model_error.h"
#include "compiler/ir/weight_attribute.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/SymbolTable.h"

namespace tessera::compiler {
namespace {

int64_t bytesOf(const v1::TensorSpec& spec) {
  int64_t bytes = elementBytes(spec.dtype());
  for (int64_t extent : spec.shape()) bytes *= extent;
  return bytes;
}

int64_t flopsWithin(mlir::Operation* op) {
  int64_t flops = 0;
  op->walk([&](mlir::linalg::LinalgOp inner) { flops += flopsOf(inner); });
  return flops;
}

/// Names come from the model and may hold any bytes; messages require valid text.
v1::TensorSpec shown(v1::TensorSpec spec) {
  spec.set_name(printable(spec.name()));
  return spec;
}

void addEdge(v1::GraphView& view, int from, int to, const v1::TensorSpec& tensor) {
  v1::GraphView::Edge* edge = view.add_edges();
  edge->set_from(from);
  edge->set_to(to);
  *edge->mutable_tensor() = shown(tensor);
}

v1::GraphView viewNodes(const ImportedModel& model) {
  v1::GraphView view;
  std::map<std::string, int> makers;  // value name -> node
  for (const v1::TensorSpec& input : model.inputs) makers[input.name()] = -1;
  for (const ImportedModel::Node& recorded : model.graph) {
    v1::GraphView::Node* node = view.add_nodes();
    node->set_id(view.nodes_size() - 1);
    node->set_name(printable(recorded.name));
    node->set_op(printable(recorded.op_type));
    int64_t bytes = 0;
    for (const v1::TensorSpec& input : recorded.inputs) {
      // An input without maker is a weight, which the view shows by bytes only.
      bytes += bytesOf(input);
      if (auto maker = makers.find(input.name()); maker != makers.end()) {
        addEdge(view, maker->second, node->id(), input);
      }
    }
    for (const v1::TensorSpec& output : recorded.outputs) {
      bytes += bytesOf(output);
      makers[output.name()] = node->id();
    }
    // Folded nodes became no operations and cost nothing.
    if (recorded.became.empty()) continue;
    node->set_bytes(bytes);
    int64_t flops = 0;
    for (mlir::Operation* op : recorded.became) flops += flopsWithin(op);
    node->set_flops(flops);
  }
  for (const v1::TensorSpec& output : model.outputs) {
    if (auto maker = makers.find(output.name()); maker != makers.end()) addEdge(view, maker->second, -1, output);
  }
  return view;
}

std::optional<v1::TensorSpec> specOf(mlir::Value value) {
  auto type = mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
  if (!type) return std::nullopt;
  v1::TensorSpec spec;
  spec.set_dtype(dataTypeOf(type.getElementType()));
  for (int64_t extent : type.getShape()) spec.add_shape(extent);
  return spec;
}

/// Text formats have no nodes, so each operation is one. Constants, fills and the like belong to their readers.
v1::GraphView viewOperations(const ImportedModel& model) {
  v1::GraphView view;
  auto main = mlir::dyn_cast_or_null<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model.module, "main"));
  if (!main) return view;
  llvm::DenseMap<mlir::Value, int> makers;
  for (mlir::BlockArgument argument : main.getArguments()) {
    if (!main.getArgAttr(argument.getArgNumber(), kWeightAttribute)) makers[argument] = -1;
  }
  for (mlir::Operation& op : main.getBody().front().without_terminator()) {
    if (kindOf(&op) == OpKind::kCloned) continue;
    v1::GraphView::Node* node = view.add_nodes();
    node->set_id(view.nodes_size() - 1);
    auto location = mlir::dyn_cast<mlir::NameLoc>(op.getLoc());
    node->set_name(location ? printable(location.getName().str()) : absl::StrCat("#", node->id()));
    node->set_op(op.getName().getStringRef().str());
    node->set_flops(flopsWithin(&op));
    int64_t bytes = 0;
    for (mlir::Value operand : op.getOperands()) {
      auto spec = specOf(operand);
      auto maker = makers.find(operand);
      if (!spec) continue;
      bytes += bytesOf(*spec);
      if (maker != makers.end()) addEdge(view, maker->second, node->id(), *spec);
    }
    for (mlir::Value result : op.getResults()) {
      if (auto spec = specOf(result)) bytes += bytesOf(*spec);
      makers[result] = node->id();
    }
    node->set_bytes(bytes);
  }
  for (auto [value, spec] : llvm::zip(main.getBody().front().getTerminator()->getOperands(), model.outputs)) {
    if (auto maker = makers.find(value); maker != makers.end()) addEdge(view, maker->second, -1, spec);
  }
  return view;
}

}  // namespace

v1::GraphView viewModel(const ImportedModel& model) {
  return model.graph.empty() ? viewOperations(model) : viewNodes(model);
}

}  // namespace tessera::compiler
