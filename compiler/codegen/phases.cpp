#include "compiler/codegen/phases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/tiling/body_analysis.h"
#include "compiler/codegen/tiling/register_pressure.h"
#include "compiler/codegen/tiling/separable.h"
#include "compiler/schedule/fault.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

namespace linalg = mlir::linalg;

using Roots = llvm::SmallVector<mlir::Value>;

/// One top-level operation, or several fused in one nest, with the buffers it touches.
struct Item {
  std::optional<Nest> nest;
  mlir::Operation* op = nullptr;
  Roots reads, writes;
  std::vector<Nest> border;  ///< set when a fill has shrunk to a border: replaces `nest`
  /// item that writes the interior of this border: it touches the same buffer, but disjoint boxes
  int disjoint_from = -1;
  bool removed = false;
  std::string cut;                         ///< see Phase::cut
  llvm::SmallVector<int> operations = {};  ///< numbers of those in the nest, in program order
};

void add(Roots& roots, mlir::Value value) {
  if (!llvm::is_contained(roots, value)) roots.push_back(value);
}

bool intersects(const Roots& a, const Roots& b) {
  return llvm::any_of(a, [&](mlir::Value value) { return llvm::is_contained(b, value); });
}

/// Adds all memory reachable from `op` through memref operands, nested regions included.
void addMemory(mlir::Operation* op, Item& item) {
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

void refreshRoots(Item& item) {
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
    Item captured;
    for (mlir::Operation& op : *statement.body()) addMemory(&op, captured);
    for (mlir::Value root : captured.reads) add(item.reads, root);
  }
}

bool isView(mlir::Operation& op) { return llvm::isa<mlir::ViewLikeOpInterface>(op); }

std::vector<Item> itemsOf(mlir::func::FuncOp func) {
  std::vector<Item> items;
  for (mlir::Operation& op : func.getBody().front().without_terminator()) {
    if (isView(op) || llvm::isa<mlir::memref::AllocOp, mlir::memref::GetGlobalOp, mlir::memref::DeallocOp>(op) ||
        mlir::isPure(&op))
      continue;
    Item item;
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

bool isFill(const Item& item) { return item.op && llvm::isa<linalg::FillOp>(item.op) && !item.removed; }

/// fill(c, X); reduce(..., X)  ->  reduce starting from c. A fill that is overwritten before it is read disappears as
/// well.
void absorbFills(std::vector<Item>& items) {
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
void shrinkFills(std::vector<Item>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (!isFill(items[i]) || !items[i].nest) continue;
    mlir::Value target = llvm::cast<linalg::FillOp>(items[i].op).getOutputs()[0];
    if (target != rootOf(target)) continue;
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

/// Extent of the longest loop along which the nest's last results are contiguous.
int64_t sideBySide(const Nest& nest) {
  int64_t longest = 1;
  for (const Operand& output : nest.statements.back().outputs)
    for (int loop = 0; loop < nest.loops(); ++loop)
      if (!nest.reduction[loop] && output.access.strides[loop] == 1) longest = std::max(longest, nest.extents[loop]);
  return longest;
}

/// Whether fusing the follower would make a sum's vector stores scalar, because the follower permutes the results so
/// that few of them are contiguous (channels shuffled among three groups). A separate pass over data in a near cache
/// permutes them at a lower cost.
bool scatters(const Nest& sum, const Nest& fused) {
  constexpr int64_t kFewer = 4;
  return sum.hasReduction() && sideBySide(fused) * kFewer < sideBySide(sum);
}

/// Whether fusing the follower would make the vector stores of a transform of small blocks scalar. The vectors run
/// along a contiguous dimension of the results; a block has no vectors along the image that could be transposed
/// instead.
bool transposesBlocks(const Nest& sum, const Nest& fused) {
  if (!separableTransform(sum)) return false;
  const auto along = [](const Nest& nest, int loop) {
    return nest.extents[loop] > 1 && llvm::any_of(nest.statements.back().outputs, [loop](const Operand& output) {
             return output.access.strides[loop] == 1;
           });
  };
  return llvm::any_of(llvm::seq(sum.loops()), [&](int loop) { return along(sum, loop) && !along(fused, loop); });
}

/// Moves producers down to their elementwise consumers if no operation in between depends on the order. Without
/// `followed`, only where vectors and registers permit it; with it, exactly where the tree says.
void fuseFollowers(std::vector<Item>& items, int vector_registers, const ParsedSchedule* followed) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].removed || !items[i].nest || isFill(items[i])) continue;
    size_t j = i + 1;
    // The first reader of the item's results.
    while (j < items.size() && (items[j].removed || !intersects(items[j].reads, items[i].writes))) ++j;
    if (j == items.size() || !items[j].nest || isFill(items[j])) continue;
    bool blocked = false;
    for (size_t k = i + 1; k < j && !blocked; ++k)
      // Moving the producer down to its reader must not pass an item that it depends on, or that depends on it.
      blocked = !items[k].removed &&
                (intersects(items[k].writes, items[i].reads) || intersects(items[k].reads, items[i].writes));
    // A body that the vector emitter cannot handle must not make a contraction scalar.
    if (blocked || items[j].nest->statements.size() != 1) continue;
    const bool suits = !vectorizable(*items[i].nest) || vectorizable(*items[j].nest);
    Nest fused = *items[i].nest;
    const bool joined = followed && followed->joins(items[i].operations.back(), items[j].operations.front());
    if ((!suits && !joined) || !appendFollower(fused, *items[j].nest)) continue;
    // Applies to nests of two or more statements: a single body cannot be cut, and spills if it must.
    const int live = liveVectors(fused);
    // A follower that spills by itself is not improved by staying separate.
    const bool spills = live > vector_registers && live > liveVectors(*items[j].nest);
    if (spills && !joined) items[i].cut = absl::StrCat("cut: ", live, " values for ", vector_registers, " registers");
    if (followed ? !joined : spills || scatters(*items[i].nest, fused) || transposesBlocks(*items[i].nest, fused))
      continue;
    items[i].operations.append(items[j].operations);
    items[j].operations = items[i].operations;
    items[j].nest = std::move(fused);
    items[j].op = items[i].op;
    refreshRoots(items[j]);
    items[i].removed = true;  // item j is visited later in this loop
  }
}

/// A temporary that only later statements of its own nest read never needs to be stored.
void dropDeadStores(std::vector<Item>& items) {
  for (Item& item : items) {
    if (item.removed || !item.nest) continue;
    for (Statement& statement : item.nest->statements)
      for (auto [o, output] : llvm::enumerate(statement.outputs)) {
        mlir::Value root = output.access.root;
        if (!root.getDefiningOp<mlir::memref::AllocOp>()) continue;
        // Needed in memory: by another item, by a later read of the same nest, or as the old value of a sum.
        bool needed = false;
        for (const Item& other : items)
          if (&other != &item && !other.removed) needed |= llvm::is_contained(other.reads, root);
        for (const Statement& reader : item.nest->statements)
          for (const Operand& input : reader.inputs) needed |= input.access.root == root && !input.from;
        if (readsOld(statement, o) && !statement.init[o]) needed = true;
        if (!needed) statement.stored[o] = false;
      }
  }
}

/// The boxes of `root` that an item writes; nothing when it also reads the buffer or a box is unknown.
std::optional<std::vector<Box>> boxesWritten(const Item& item, mlir::Value root) {
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
bool conflict(const Item& a, const Item& b) {
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

/// The nests of an item, in order.
std::vector<Nest> nestsOf(const Item& item) {
  if (!item.nest) return {};
  return item.disjoint_from >= 0 ? item.border : std::vector<Nest>{*item.nest};
}

/// Checks that the operations sharing nests are those that the tree lists.
absl::Status checkFused(const std::vector<llvm::SmallVector<int>>& fused, const ParsedSchedule& followed) {
  for (const llvm::SmallVector<int>& wanted : followed.fused)
    if (!llvm::is_contained(fused, wanted))
      return scheduleFault("",
                           "operations that cannot share a nest: their loops differ, or something between needs them",
                           absl::StrJoin(wanted, "+"), "operations each of which reads what the one before it makes");
  if (fused != followed.fused)
    return scheduleFault("", "nests of several operations stand in program order", "another order", "");
  return absl::OkStatus();
}

/// The tree's phase of each item, if the tree's phases consist of the items in order.
absl::StatusOr<std::vector<int>> phasesOf(const std::vector<Item>& items, const ParsedSchedule& followed) {
  std::vector<int> phase_of(items.size(), -1);
  size_t phase = 0, taken = 0;  // leaves of the phase
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].removed) continue;
    const size_t nests = nestsOf(items[i]).size();
    // Whether the tree's current phase can take the next item.
    auto room = [&] {
      if (phase >= followed.phases.size()) return false;
      const ParsedPhase& each = followed.phases[phase];
      return each.sequential ? nests == 0 : nests > 0 && taken + nests <= each.leaves.size();
    };
    if (taken > 0 && !room()) {
      ++phase;
      taken = 0;
    }
    if (!room())
      return scheduleFault(phase < followed.phases.size() ? followed.phases[phase].path : "",
                           "phases do not hold the nests of the workload in order",
                           absl::StrCat("no place for operation ", items[i].operations.front()),
                           nests > 0 ? absl::StrCat(nests, " leaves for it") : "a sequential phase");
    phase_of[i] = static_cast<int>(phase);
    taken += std::max<size_t>(1, nests);
  }
  const size_t used = taken > 0 ? phase + 1 : phase;
  if (used < followed.phases.size() ||
      (used > 0 && !followed.phases[used - 1].sequential && taken < followed.phases[used - 1].leaves.size()))
    return scheduleFault(used < followed.phases.size() ? followed.phases[used].path : followed.phases[used - 1].path,
                         "leaves without a nest", "more leaves than the workload has nests", "one leaf a nest");
  return phase_of;
}

}  // namespace

absl::StatusOr<PhaseList> splitPhases(mlir::func::FuncOp func, int vector_registers, const ParsedSchedule* followed) {
  std::vector<Item> items = itemsOf(func);
  absorbFills(items);
  fuseFollowers(items, vector_registers, followed);
  shrinkFills(items);
  dropDeadStores(items);

  PhaseList list;
  for (const Item& item : items)
    if (!item.removed && item.operations.size() > 1) list.fused.push_back(item.operations);
  std::vector<int> phase_of;
  if (followed) {
    TESSERA_RETURN_IF_ERROR(checkFused(list.fused, *followed));
    if (!followed->region) {
      TESSERA_ASSIGN_OR_RETURN(phase_of, phasesOf(items, *followed));
    }
  }
  int numbered = 0, previous = -1;
  llvm::SmallVector<int> members;  // items of the phase under construction
  for (int i = 0; i < static_cast<int>(items.size()); ++i) {
    Item& item = items[i];
    if (item.removed) continue;
    const bool loops = !item.nest;
    bool join = !list.phases.empty();
    if (join) {
      const bool previous_loops = !list.phases.back().loops.empty();
      if (loops || previous_loops) {
        join = loops && previous_loops;  // sequential code stays in order within one call
      } else {
        for (int member : members) join &= items[member].disjoint_from == i || !conflict(items[member], item);
      }
    }
    if (!phase_of.empty()) {
      const bool wanted = phase_of[i] == previous;
      if (wanted && !join)
        return scheduleFault(followed->phases[previous].path, "nests of one phase depend on each other",
                             absl::StrCat("operation ", item.operations.front(), " beside those before it"),
                             "a phase of its own");
      if (loops && join && !wanted)
        return scheduleFault(followed->phases[previous].path, "operations that are no nests run in one phase",
                             "several", "one");
      join = wanted;
      previous = phase_of[i];
    }
    if (!join) {
      list.phases.emplace_back().first = numbered;
      members.clear();
    }
    members.push_back(i);
    Phase& phase = list.phases.back();
    if (loops) {
      phase.loops.push_back(item.op);
      continue;
    }
    const std::vector<Nest> nests = nestsOf(item);
    phase.nests.insert(phase.nests.end(), nests.begin(), nests.end());
    numbered += static_cast<int>(nests.size());
    if (item.disjoint_from < 0 && !item.cut.empty()) phase.cut = item.cut;
  }
  return list;
}

void splitGrids(PhaseList& list, const Chip& chip) {
  for (Phase& phase : list.phases)
    for (auto [nest, plan] : llvm::zip_equal(phase.nests, phase.plans)) splitGrid(nest, chip, plan);
}

}  // namespace tessera::compiler::codegen
