#include "compiler/backends/cpu/work_items.h"

#include <algorithm>

#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/register_pressure.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace tessera::compiler::codegen {
namespace {

namespace linalg = mlir::linalg;

using Roots = WorkItem::Roots;

void add(Roots& roots, mlir::Value value) {
  if (!llvm::is_contained(roots, value)) roots.push_back(value);
}

bool intersects(const Roots& a, const Roots& b) {
  return llvm::any_of(a, [&](mlir::Value value) { return llvm::is_contained(b, value); });
}

/// Adds all memory reachable from `op` through memref operands, nested regions included.
void addMemory(mlir::Operation* op, WorkItem& item) {
  op->walk([&](mlir::Operation* inner) {
    const bool load_only = llvm::isa<mlir::memref::LoadOp>(inner);
    for (mlir::Value operand : inner->getOperands())
      if (llvm::isa<mlir::BaseMemRefType>(operand.getType())) {
        add(item.reads, rootOf(operand));
        // Any operation other than a load or a view might write.
        if (!load_only && !llvm::isa<mlir::ViewLikeOpInterface>(inner)) add(item.writes, rootOf(operand));
      }
  });
}

void refreshRoots(WorkItem& item) {
  item.reads.clear();
  item.writes.clear();
  for (const Statement& statement : item.nest->statements) {
    for (const Operand& input : statement.inputs)
      if (input.access.root && !input.from) add(item.reads, input.access.root);
    for (const Operand& output : statement.outputs) {
      add(item.reads, output.access.root);
      add(item.writes, output.access.root);
    }
    // A body may load from memory it captures (a gather).
    WorkItem captured;
    for (mlir::Operation& op : *statement.body()) addMemory(&op, captured);
    for (mlir::Value root : captured.reads) add(item.reads, root);
  }
}

bool isView(mlir::Operation& op) { return llvm::isa<mlir::ViewLikeOpInterface>(op); }

std::vector<WorkItem> itemsOf(mlir::func::FuncOp func) {
  std::vector<WorkItem> items;
  for (mlir::Operation& op : func.getBody().front().without_terminator()) {
    if (isView(op) || llvm::isa<mlir::memref::AllocOp, mlir::memref::GetGlobalOp, mlir::memref::DeallocOp>(op) ||
        mlir::isPure(&op))
      continue;
    WorkItem item;
    item.op = &op;
    item.operations.push_back(static_cast<int>(items.size()));
    if (auto structured = llvm::dyn_cast<linalg::LinalgOp>(op)) item.nest = nestOf(structured);
    if (item.nest) {
      refreshRoots(item);
    } else {
      addMemory(&op, item);
    }
    items.push_back(std::move(item));
  }
  return items;
}

bool readsOld(const Statement& statement, size_t output) {
  return !statement.body()->getArgument(statement.inputs.size() + output).use_empty();
}

bool isFill(const WorkItem& item) { return item.op && llvm::isa<linalg::FillOp>(item.op) && !item.removed; }

/// fill(c, X); reduce(..., X)  ->  reduce starting from c. A fill that is overwritten before it is read disappears as
/// well.
void absorbFills(std::vector<WorkItem>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (!isFill(items[i]) || !items[i].nest) continue;
    mlir::Value target = llvm::cast<linalg::FillOp>(items[i].op).getOutputs()[0];
    const mlir::Value root = rootOf(target);
    for (size_t j = i + 1; j < items.size(); ++j) {
      // The first item after the fill that touches the buffer decides.
      if (!llvm::is_contained(items[j].reads, root) && !llvm::is_contained(items[j].writes, root)) continue;
      if (!items[j].nest || items[j].removed) break;
      Statement& main = items[j].nest->statements[0];
      for (auto [o, init] : llvm::enumerate(main.op.getDpsInits())) {
        if (init != target) continue;
        int uses = 0;
        for (const Operand& input : main.inputs) uses += input.access.root == root;
        for (const Operand& output : main.outputs) uses += output.access.root == root;
        // Another use of the buffer in the same nest would see it without the fill.
        if (uses != 1) break;
        // A body that does not read the old value overwrites the fill, which then is not needed at all.
        if (readsOld(main, o)) main.init[o] = llvm::cast<linalg::FillOp>(items[i].op).getInputs()[0];
        items[i].removed = true;
      }
      break;
    }
  }
}

using Box = std::pair<llvm::SmallVector<int64_t>, llvm::SmallVector<int64_t>>;  ///< offsets, sizes

/// The box [offset, offset + size) of its root that `view` covers, if it is a static unit-stride subview.
std::optional<Box> boxOf(mlir::Value view) {
  auto subview = view.getDefiningOp<mlir::memref::SubViewOp>();
  if (!subview || subview.getSource() != rootOf(view)) return std::nullopt;
  auto is_static = [](llvm::ArrayRef<int64_t> values) { return !llvm::any_of(values, mlir::ShapedType::isDynamic); };
  if (!is_static(subview.getStaticOffsets()) || !is_static(subview.getStaticSizes()) ||
      !llvm::all_of(subview.getStaticStrides(), [](int64_t stride) { return stride == 1; }))
    return std::nullopt;
  return Box(llvm::SmallVector<int64_t>(subview.getStaticOffsets()),
             llvm::SmallVector<int64_t>(subview.getStaticSizes()));
}

/// The part of `fill` outside of the box: two slabs per padded dimension, each limited to the box in the preceding
/// dimensions.
std::vector<Nest> borderOf(const Nest& fill, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes) {
  std::vector<Nest> slabs;
  Nest rest = fill;
  auto slab = [&](int dim, int64_t begin, int64_t extent) {
    if (extent == 0) return;
    Nest part = rest;
    Access& access = part.statements[0].outputs[0].access;
    access.offset += begin * access.strides[dim];
    part.extents[dim] = extent;
    slabs.push_back(std::move(part));
  };
  for (int dim = 0; dim < fill.loops(); ++dim) {
    slab(dim, 0, offsets[dim]);
    // Before the box, then after it; the remaining dimensions are cut within the box's range of this one.
    slab(dim, offsets[dim] + sizes[dim], rest.extents[dim] - offsets[dim] - sizes[dim]);
    Access& access = rest.statements[0].outputs[0].access;
    access.offset += offsets[dim] * access.strides[dim];
    rest.extents[dim] = sizes[dim];
  }
  return slabs;
}

/// fill(c, X); write X[box] without reading  ->  fill only what is outside the box.
void shrinkFills(std::vector<WorkItem>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (!isFill(items[i]) || !items[i].nest) continue;
    mlir::Value target = llvm::cast<linalg::FillOp>(items[i].op).getOutputs()[0];
    if (target != rootOf(target)) continue;
    // Only the next item that touches the buffer matters: if it overwrites a box without reading, the fill of that box
    // is never seen. One that reads the buffer or writes it twice needs the whole fill.
    for (size_t j = i + 1; j < items.size(); ++j) {
      if (!llvm::is_contained(items[j].reads, target) && !llvm::is_contained(items[j].writes, target)) continue;
      if (!items[j].nest || items[j].removed) break;
      int uses = 0;
      std::optional<Box> box;
      for (Statement& statement : items[j].nest->statements) {
        for (const Operand& input : statement.inputs) uses += !input.from && input.access.root == target;
        for (auto [o, output] : llvm::enumerate(statement.outputs))
          if (output.access.root == target) {
            ++uses;
            if (!readsOld(statement, o) || statement.init[o]) box = boxOf(statement.op.getDpsInits()[o]);
          }
      }
      if (uses == 1 && box) {
        items[i].border = borderOf(*items[i].nest, box->first, box->second);
        items[i].disjoint_from = static_cast<int>(j);
        if (items[i].border.empty()) items[i].removed = true;
      }
      break;
    }
  }
}

bool vectorizable(const Nest& nest) {
  return llvm::all_of(nest.statements, [](const Statement& s) { return isVectorizableBody(*s.body()); });
}

/// A temporary that only later statements of its own nest read never needs to be stored.
void dropDeadStores(std::vector<WorkItem>& items) {
  for (WorkItem& item : items) {
    if (item.removed || !item.nest) continue;
    for (Statement& statement : item.nest->statements)
      for (auto [o, output] : llvm::enumerate(statement.outputs)) {
        mlir::Value root = output.access.root;
        if (!root.getDefiningOp<mlir::memref::AllocOp>()) continue;
        // Needed in memory: by another item, by a later read of the same nest, or as the old value of a sum.
        bool needed = false;
        for (const WorkItem& other : items)
          if (&other != &item && !other.removed) needed |= llvm::is_contained(other.reads, root);
        for (const Statement& reader : item.nest->statements)
          for (const Operand& input : reader.inputs) needed |= input.access.root == root && !input.from;
        if (readsOld(statement, o) && !statement.init[o]) needed = true;
        if (!needed) statement.stored[o] = false;
      }
  }
}

/// The boxes of `root` that an item writes; nothing when it also reads the buffer or a box is unknown.
std::optional<std::vector<Box>> boxesWritten(const WorkItem& item, mlir::Value root) {
  if (!item.nest || !item.border.empty()) return std::nullopt;
  std::vector<Box> boxes;
  for (const Statement& statement : item.nest->statements) {
    for (const Operand& input : statement.inputs)
      if (input.access.root == root && !input.from) return std::nullopt;
    linalg::LinalgOp op = statement.op;
    for (auto [o, output] : llvm::enumerate(statement.outputs)) {
      if (output.access.root != root) continue;
      auto box = boxOf(op.getDpsInits()[o]);
      if (!box || (readsOld(statement, o) && !statement.init[o])) return std::nullopt;
      boxes.push_back(std::move(*box));
    }
  }
  return boxes;
}

bool disjoint(const Box& a, const Box& b) {
  for (auto [a_offset, a_size, b_offset, b_size] : llvm::zip_equal(a.first, a.second, b.first, b.second))
    if (a_offset + a_size <= b_offset || b_offset + b_size <= a_offset) return true;
  return false;
}

/// Whether two items must not run concurrently: one writes a buffer that the other touches, unless both write disjoint
/// boxes of it.
bool conflict(const WorkItem& a, const WorkItem& b) {
  Roots shared;
  for (mlir::Value root : a.writes)
    if (llvm::is_contained(b.reads, root) || llvm::is_contained(b.writes, root)) add(shared, root);
  for (mlir::Value root : b.writes)
    if (llvm::is_contained(a.reads, root)) add(shared, root);
  return llvm::any_of(shared, [&](mlir::Value root) {
    const auto in_a = boxesWritten(a, root), in_b = boxesWritten(b, root);
    if (!in_a || !in_b) return true;
    for (const Box& x : *in_a)
      for (const Box& y : *in_b)
        if (!disjoint(x, y)) return true;
    return false;
  });
}

}  // namespace

WorkloadAnalysis analyze(mlir::func::FuncOp func) {
  WorkloadAnalysis analysis{func, itemsOf(func)};
  absorbFills(analysis.items);
  return analysis;
}

std::optional<FusionCandidate> fusionCandidate(llvm::ArrayRef<WorkItem> items, size_t producer) {
  const WorkItem& item = items[producer];
  if (item.removed || !item.nest || isFill(item)) return std::nullopt;
  size_t reader = producer + 1;
  while (reader < items.size() && (items[reader].removed || !intersects(items[reader].reads, item.writes))) ++reader;
  if (reader == items.size() || !items[reader].nest || isFill(items[reader])) return std::nullopt;
  for (const WorkItem& between : items.slice(producer + 1, reader - producer - 1))
    // Moving the producer down to its reader must not pass an item that it depends on, or that depends on it.
    if (!between.removed && (intersects(between.writes, item.reads) || intersects(between.reads, item.writes)))
      return std::nullopt;
  const Nest& follower = *items[reader].nest;
  if (follower.statements.size() != 1) return std::nullopt;
  FusionCandidate candidate{.reader = reader, .nest = *item.nest};
  if (!appendFollower(candidate.nest, follower)) return std::nullopt;
  candidate.loses_vectors = vectorizable(*item.nest) && !vectorizable(follower);
  candidate.live_vectors = liveVectors(candidate.nest);
  candidate.live_in_reader = liveVectors(follower);
  return candidate;
}

void fuse(std::vector<WorkItem>& items, size_t producer, FusionCandidate candidate) {
  WorkItem &from = items[producer], &into = items[candidate.reader];
  from.operations.append(into.operations);
  into.operations = from.operations;
  into.nest = std::move(candidate.nest);
  into.op = from.op;
  refreshRoots(into);
  from.removed = true;
}

void completeNests(std::vector<WorkItem>& items) {
  shrinkFills(items);
  dropDeadStores(items);
}

bool mayShareAPhase(llvm::ArrayRef<WorkItem> items, llvm::ArrayRef<int> phase, int item) {
  // Sequential code stays in order within one call, apart from nests.
  const bool loops = !items[item].nest, phase_loops = !items[phase.back()].nest;
  if (loops || phase_loops) return loops && phase_loops;
  return llvm::all_of(
      phase, [&](int member) { return items[member].disjoint_from == item || !conflict(items[member], items[item]); });
}

}  // namespace tessera::compiler::codegen
