#include "compiler/backends/cpu/region/buffer_lifetimes.h"

#include <algorithm>

#include "compiler/backends/cpu/operand_accesses.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace tessera::compiler::codegen {
namespace {

using Box = llvm::SmallVector<Range>;

/// How a nest uses one buffer. A box is empty where it does not read, or does not write.
struct Use {
  Box read, written;
  bool clear = true;  ///< the boxes describe the use completely: one output writes every point of the written box
  bool touches() const { return !clear || !read.empty() || !written.empty(); }
  bool onlyWrites() const { return clear && read.empty() && !written.empty(); }
};

Box boxOf(const Walks& walks, llvm::ArrayRef<int64_t> extents) {
  Box box;
  for (const Walk& walk : walks) {
    Range& range = box.emplace_back(Range{walk.start, walk.start + 1});
    for (auto [loop, coefficient] : walk.loops) range.hi += coefficient * (extents[loop] - 1);
  }
  return box;
}

bool isFilled(const Walks& walks) {
  return llvm::all_of(walks, [](const Walk& walk) {
    return walk.loops.empty() || (walk.loops.size() == 1 && walk.loops[0].second == 1);
  });
}

bool within(const Box& inner, const Box& outer) {
  return std::ranges::equal(inner, outer, [](Range mine, Range its) { return its.lo <= mine.lo && mine.hi <= its.hi; });
}

Use useOf(const Nest& nest, mlir::Value root, const Coordinates& coordinates) {
  Use use;
  auto walked = [&](const Access& access) {
    auto walks = walksOf(access, nest.extents, coordinates);
    use.clear &= walks.has_value();
    return walks.value_or(Walks());
  };
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs) {
      if (!accessesInputMemory(input) || input.access.root != root) continue;
      const Box box = boxOf(walked(input.access), nest.extents);
      // Two reads of different boxes would need a union, which one box cannot state.
      use.clear &= use.read.empty() || use.read == box;
      use.read = box;
    }
    for (auto [o, output] : llvm::enumerate(statement.outputs)) {
      if (output.access.root != root || !accessesOutputMemory(statement, o)) continue;
      const Walks walks = walked(output.access);
      const bool reads = !statement.init[o] && !statement.body()->getArgument(statement.inputs.size() + o).use_empty();
      use.clear &= use.written.empty() && isFilled(walks) && !reads;
      use.written = boxOf(walks, nest.extents);
    }
    // A body that loads by itself may read any element.
    statement.op->walk([&](mlir::memref::LoadOp load) { use.clear &= rootOf(load.getMemRef()) != root; });
  }
  return use;
}

/// The nest that writes the value that ends at nest `over`: other nests before `over` read the value, and `over`
/// overwrites all of it. -1: none.
int writerBefore(const std::vector<Use>& uses, int over) {
  llvm::SmallVector<const Box*> reads;
  for (int n = over - 1; n >= 0; --n) {
    const Use& use = uses[n];
    if (!use.touches()) continue;
    if (!use.clear) return -1;
    if (use.written.empty()) {
      reads.push_back(&use.read);
      continue;
    }
    // Every later read must lie within the box that this nest writes, so that none of them needs the buffer's older
    // contents.
    const bool whole = use.onlyWrites() && !reads.empty() && within(use.written, uses[over].written) &&
                       llvm::all_of(reads, [&](const Box* read) { return within(*read, use.written); });
    return whole ? n : -1;
  }
  return -1;
}

void rename(Nest& nest, mlir::Value from, mlir::Value to) {
  for (Statement& statement : nest.statements) {
    for (Operand& input : statement.inputs)
      if (input.access.root == from) input.access.root = to;
    for (Operand& output : statement.outputs)
      if (output.access.root == from) output.access.root = to;
  }
}

/// The buffer that a nest copies element by element; null if it does anything else.
mlir::Value copiedBy(const Nest& nest) {
  if (nest.statements.size() != 1) return nullptr;
  const Statement& copy = nest.statements[0];
  if (copy.inputs.size() != 1 || copy.outputs.size() != 1 || !accessesInputMemory(copy.inputs[0])) return nullptr;
  Access there = copy.inputs[0].access;
  const mlir::Value from = there.root;
  there.root = copy.outputs[0].access.root;
  mlir::Operation* yield = copy.body()->getTerminator();
  const bool same = there == copy.outputs[0].access && there.element == copy.outputs[0].access.element &&
                    yield->getOperand(0) == copy.body()->getArgument(0);
  return same ? from : nullptr;
}

bool readsNothing(const Nest& nest) {
  return llvm::all_of(nest.statements,
                      [](const Statement& statement) { return llvm::none_of(statement.inputs, accessesInputMemory); });
}

/// If two values are padded with the same constant, bufferization fills one buffer and copies the padding of the other
/// from it. Replaces such copies by fills.
void writeConstantsInPlace(SlicedNests& nests) {
  for (size_t n = 1; n < nests.nests.size(); ++n) {
    const mlir::Value from = copiedBy(nests.nests[n]);
    if (!from) continue;
    const mlir::Value to = nests.nests[n].statements[0].outputs[0].access.root;
    const Coordinates &mine = nests.coordinates.at(to), &its = nests.coordinates.at(from);
    // The copied nest keeps its accesses, so both buffers need the same layout.
    if (mine.extents != its.extents || mine.strides != its.strides) continue;
    size_t writer = n;
    bool over = false;  // a later nest writes the buffer
    for (size_t other = 0; other < nests.nests.size(); ++other) {
      if (useOf(nests.nests[other], from, its).written.empty()) continue;
      if (other < n) writer = other;
      over |= other > n;
    }
    // The copy is worth replacing only if the original is written over later, and safe only if its writer depends on
    // nothing.
    if (!over || writer == n || !readsNothing(nests.nests[writer])) continue;
    const Use made = useOf(nests.nests[writer], from, its), copied = useOf(nests.nests[n], from, its);
    if (!made.onlyWrites() || made.written != copied.read) continue;
    nests.nests[n] = nests.nests[writer];
    rename(nests.nests[n], from, to);
  }
}

}  // namespace

void splitBufferLifetimes(mlir::OpBuilder& builder, SlicedNests& nests) {
  writeConstantsInPlace(nests);
  llvm::SmallVector<mlir::Value> roots;  // in the order of first use, so that equal units give equal code
  for (const Nest& nest : nests.nests)
    for (const Statement& statement : nest.statements)
      for (const Operand& output : statement.outputs) {
        const mlir::Value root = output.access.root;
        if (root.getDefiningOp<mlir::memref::AllocOp>() && !nests.isResult(root) && !llvm::is_contained(roots, root))
          roots.push_back(root);
      }
  for (mlir::Value root : roots) {
    const Coordinates coordinates = nests.coordinates.at(root);
    std::vector<Use> uses;
    for (const Nest& nest : nests.nests) uses.push_back(useOf(nest, root, coordinates));
    // Backwards, so that each value is split off before the search for the value before it.
    for (int over = static_cast<int>(uses.size()) - 1; over > 0; --over) {
      const int writer = uses[over].onlyWrites() ? writerBefore(uses, over) : -1;
      if (writer < 0) continue;
      const mlir::Value own =
          mlir::memref::AllocOp::create(builder, builder.getUnknownLoc(), llvm::cast<mlir::MemRefType>(root.getType()));
      nests.coordinates[own] = coordinates;
      for (int n = writer; n < over; ++n) {
        rename(nests.nests[n], root, own);
        uses[n] = {};
      }
    }
  }
}

}  // namespace tessera::compiler::codegen
