#include "compiler/graph/slices/region_graph_of_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/analysis/summary.h"
#include "compiler/graph/analysis/underlying_bytes.h"
#include "compiler/graph/slices/access_trace.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler {
namespace {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

/// Whether the operation sums over more than one dimension: a feature map, not a row.
bool reducesMaps(Operation* op) {
  if (kindOf(op) != OpKind::kReduction) return false;
  auto linalg_op = mlir::cast<mlir::linalg::LinalgOp>(op);
  const llvm::SmallVector<int64_t> extents = linalg_op.getStaticLoopRanges();
  int reduced = 0;
  for (unsigned loop = 0; loop < linalg_op.getNumLoops(); ++loop) {
    reduced += linalg_op.getIteratorTypesArray()[loop] == mlir::utils::IteratorType::reduction && extents[loop] > 1;
  }
  return reduced > 1;
}

class GraphWriter {
 public:
  GraphWriter(const std::vector<Group>& groups, const UsedRowAnalysis* rows) : groups_(groups), rows_(rows) {}

  fusion::RegionGraph run() {
    for (const Group& group : groups_) add(group);
    for (const Group& group : groups_) {
      for (Value result : group.results) {
        if (llvm::any_of(result.getUsers(), [](Operation* user) { return leaves(user); })) {
          graph_.outputs.push_back(tensorOf(result));
        }
      }
    }
    graph_.index();
    return std::move(graph_);
  }

 private:
  /// Whether a reader, or a view's reader, is the function's return.
  static bool leaves(Operation* user) {
    if (user->hasTrait<mlir::OpTrait::IsTerminator>()) return true;
    return kindOf(user) == OpKind::kView &&
           llvm::any_of(user->getResult(0).getUsers(), [](Operation* next) { return leaves(next); });
  }

  static std::vector<int64_t> shapeOf(Value value) {
    const auto shape = mlir::cast<RankedTensorType>(value.getType()).getShape();
    return shape.empty() ? std::vector<int64_t>{1} : shape.vec();
  }

  int tensorOf(Value value) {
    auto [at, fresh] = tensors_.try_emplace(value, static_cast<int>(graph_.tensors.size()));
    // One tensor for each value, whoever asks first.
    if (!fresh) return at->second;
    auto type = mlir::cast<RankedTensorType>(value.getType());
    fusion::GraphTensor tensor;
    tensor.name = nodeNames(value.getLoc());
    tensor.shape = shapeOf(value);
    tensor.element_bytes = bytesPerElement(type.getElementType());
    // Arguments are inputs or weights, which no node computes.
    tensor.constant = mlir::isa<mlir::BlockArgument>(value);
    graph_.tensors.push_back(std::move(tensor));
    return at->second;
  }

  void readWhole(fusion::GraphNode& node, Value value) {
    const int tensor = tensorOf(value);
    if (std::ranges::count(node.inputs, tensor, &fusion::GraphNode::Input::tensor) > 0) return;
    node.inputs.push_back({tensor, std::vector<fusion::DimAccess>(graph_.tensors[tensor].shape.size())});
  }

  void add(const Group& group) {
    fusion::GraphNode node;
    llvm::SmallVector<mlir::Location> locations;
    double work = 0;
    for (Operation* op : group.ops) {
      locations.push_back(op->getLoc());
      auto linalg_op = mlir::dyn_cast<mlir::linalg::LinalgOp>(op);
      if (!linalg_op) continue;
      work += kindOf(op) == OpKind::kHeavy ? static_cast<double>(flopsOf(linalg_op)) : vectorWork(linalg_op);
    }
    node.name = nodeNames(locations);
    // Further results share the tensor of the first: their readers depend on this node.
    node.output = tensorOf(group.results[0]);
    const auto type = mlir::cast<RankedTensorType>(group.results[0].getType());
    // With ranges, the smallest size counts for what slices save.
    for (int64_t d = 0; rows_ && d < type.getRank(); ++d)
      graph_.tensors[node.output].min_shape.push_back(rows_->minIndices(group.results[0], d));
    for (Value result : llvm::drop_begin(group.results)) tensors_[result] = node.output;
    double points = 1;
    for (int64_t extent : graph_.tensors[node.output].shape) points *= static_cast<double>(extent);
    node.flops_per_point = work / points;
    // Without subscripts the node reads its operands as a whole.
    if (!follow(group, node)) {
      node.kind = fusion::GraphNode::Kind::kGlobalReduction;
      node.inputs.clear();
      for (Operation* op : group.ops) {
        llvm::SetVector<Value> values(op->operand_begin(), op->operand_end());
        mlir::getUsedValuesDefinedAbove(op->getRegions(), values);
        for (Value value : values) {
          Value source = underlyingBytes(value);
          Operation* producer = source.getDefiningOp();
          if (!mlir::isa<RankedTensorType>(source.getType()) || llvm::is_contained(group.ops, producer)) continue;
          if (!producer || kindOf(producer) != OpKind::kCloned) readWhole(node, source);
        }
      }
    }
    graph_.nodes.push_back(std::move(node));
  }

  bool follow(const Group& group, fusion::GraphNode& node) {
    if (group.results.size() != 1 || group.chain || llvm::any_of(group.ops, reducesMaps)) return false;
    if (llvm::any_of(group.ops, [](Operation* op) { return op->hasAttr(kAlgorithm); })) return false;
    // The prices of regions do not model products that are left to instructions.
    if (llvm::any_of(group.ops, [](Operation* op) {
          auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op);
          return generic && usesDotProductInstruction(generic);
        }))
      return false;
    std::vector<Operation*> ops = viewsBefore(group);
    ops.insert(ops.end(), group.ops.begin(), group.ops.end());
    auto trace = AccessTrace::of(inProgramOrder(std::move(ops)));
    if (!trace.ok()) return false;
    for (const AccessTrace::Read& read : trace->reads()) {
      if (underlyingBytes(read.value) != read.value) return false;  // a slice
      const int tensor = tensorOf(read.value);
      // A further result of a group, represented by the first, may have another shape.
      if (!llvm::equal(graph_.tensors[tensor].shape, shapeOf(read.value))) return false;
      fusion::GraphNode::Input input{tensor, {}};
      for (const Terms& subscript : trace->space().at(read.held)) {
        input.access.push_back(accessOf(*trace, subscript));
      }
      if (input.access.empty()) input.access.emplace_back();
      node.inputs.push_back(std::move(input));
    }
    return true;
  }

  static fusion::DimAccess accessOf(const AccessTrace& trace, const Terms& subscript) {
    fusion::DimAccess access;
    for (const loopnest::Term& term : subscript) {
      const auto cut = std::ranges::find(trace.cuts(), term.loop, &AccessTrace::Cut::loop);
      if (cut == trace.cuts().end()) {
        // A loop that no slice cuts widens the window.
        access.window += term.coefficient * (trace.space().loops()[term.loop].extent - 1);
      } else if (access.output_dim >= 0 || cut->stride > 1) {
        return {};  // two loops, or runs of a split dimension: the whole dimension
      } else {
        access.output_dim = cut->dimension;
        access.stride = term.coefficient;
      }
    }
    // A dimension without cut loop is read as a whole.
    return access.output_dim < 0 ? fusion::DimAccess{} : access;
  }

  const std::vector<Group>& groups_;
  const UsedRowAnalysis* rows_;
  fusion::RegionGraph graph_;
  llvm::DenseMap<Value, int> tensors_;
};

}  // namespace

std::vector<Operation*> viewsBefore(const Group& group) {
  llvm::SetVector<Operation*> views;
  for (Operation* op : group.ops) {
    for (Value operand : op->getOperands()) {
      // A view may be of a view: all of the way up to a value that is computed.
      for (Operation* producer = operand.getDefiningOp(); producer && kindOf(producer) == OpKind::kView;
           producer = producer->getOperand(0).getDefiningOp()) {
        if (!llvm::is_contained(group.ops, producer)) views.insert(producer);
      }
    }
  }
  return inProgramOrder({views.begin(), views.end()});
}

fusion::RegionGraph regionGraphOf(const std::vector<Group>& groups, const UsedRowAnalysis* rows) {
  return GraphWriter(groups, rows).run();
}

}  // namespace tessera::compiler
