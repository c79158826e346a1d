#include "compiler/backends/cpu/region/softmax_parts.h"

#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "compiler/ir/softmax.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

/// Adapts nests to findSoftmaxSteps: a value is the content of a buffer before a given nest.
struct NestsBackwards {
  struct Value {
    mlir::Value root;
    size_t before = 0;
    bool operator==(const Value& other) const { return root == other.root; }
  };
  using Node = size_t;
  const std::vector<Nest>& nests;

  std::optional<size_t> writerOf(const Value& value) const {
    // The last writer before that nest: a buffer may hold several values in sequence.
    for (size_t n = value.before; n-- > 0;)
      if (writes(nests[n], value.root)) return n;
    return std::nullopt;
  }
  std::optional<size_t> reduces(const Value& value, SoftmaxBody by) const {
    const auto n = writerOf(value);
    if (!n || !isSimple(nests[*n], 1)) return std::nullopt;
    const Statement& main = nests[*n].statements[0];
    return llvm::count(nests[*n].reduction, true) == 1 && main.init[0] && by(*main.body()) ? n : std::nullopt;
  }
  std::optional<size_t> maps(const Value& value, SoftmaxBody by) const {
    const auto n = writerOf(value);
    return n && !nests[*n].hasReduction() && isSimple(nests[*n], 2) && by(*nests[*n].statements[0].body())
               ? n
               : std::nullopt;
  }
  Value operand(size_t n, int number) const { return {nests[n].statements[0].inputs[number].access.root, n}; }
  /// Same shape and layout: loops and strides of the two nests are interchangeable.
  bool sameRows(size_t a, size_t b) const {
    return nests[a].extents == nests[b].extents && nests[a].reduction == nests[b].reduction &&
           sameWalk(nests[a].statements[0].outputs[0].access, nests[b].statements[0].outputs[0].access);
  }
};

}  // namespace

bool reads(const Nest& nest, mlir::Value root) {
  return llvm::any_of(nest.statements, [&](const Statement& statement) {
    return llvm::any_of(statement.inputs,
                        [&](const Operand& input) { return input.access.root == root && !input.from; });
  });
}

bool writes(const Nest& nest, mlir::Value root) {
  return llvm::any_of(nest.statements, [&](const Statement& statement) {
    return llvm::any_of(statement.outputs, [&](const Operand& output) { return output.access.root == root; });
  });
}

bool isSimple(const Nest& nest, size_t inputs) {
  const Statement& main = nest.statements[0];
  return nest.statements.size() == 1 && main.outputs.size() == 1 && main.inputs.size() == inputs &&
         llvm::all_of(main.inputs, [](const Operand& input) { return input.access.root != nullptr; });
}

bool sameWalk(const Access& a, const Access& b) { return a.offset == b.offset && a.strides == b.strides; }

std::optional<SoftmaxParts> findSoftmax(const SlicedNests& nests) {
  for (size_t n = nests.nests.size(); n-- > 0;)
    if (isContraction(nests.nests[n])) return softmaxReadBy(nests, n);
  return std::nullopt;
}

std::optional<SoftmaxParts> softmaxReadBy(const SlicedNests& nests, size_t position) {
  SoftmaxParts parts{.product = position};
  const Nest& product = nests.nests[parts.product];
  if (!isContraction(product)) return std::nullopt;
  // deferDivisions has moved the division into the product, as its second statement.
  if (product.statements.size() < 2 || llvm::count(product.reduction, true) != 1) return std::nullopt;
  const Statement& division = product.statements[1];
  if (division.inputs.size() != 2 || !division.inputs[0].from || !isQuotientBody(*division.body())) return std::nullopt;
  const auto steps = findSoftmaxSteps(NestsBackwards{nests.nests},
                                      NestsBackwards::Value{division.inputs[1].access.root, parts.product});
  if (!steps) return std::nullopt;
  parts.maximum = steps->maximum;
  parts.powers = steps->powers;
  parts.sum = steps->sum;
  const Statement& total = nests.nests[parts.sum].statements[0];
  // Another initial value would be a term of the sum that is no power.
  if (!mlir::matchPattern(total.init[0], mlir::m_AnyZeroFloat())) return std::nullopt;
  const mlir::Value summed = total.inputs[0].access.root;
  for (int loop = 0; loop < product.loops(); ++loop)
    if (product.reduction[loop]) parts.key = loop;
  // The product must walk the powers along its reduction.
  const bool along = llvm::any_of(product.statements[0].inputs, [&](const Operand& input) {
    return input.access.root == summed && input.access.strides[parts.key] != 0;
  });
  return along ? std::optional(parts) : std::nullopt;
}

}  // namespace tessera::compiler::codegen
