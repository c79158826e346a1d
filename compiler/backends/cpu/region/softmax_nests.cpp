#include "compiler/backends/cpu/region/softmax_nests.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/body_op.h"
#include "compiler/backends/cpu/math/math_single.h"
#include "compiler/backends/cpu/region/softmax_parts.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "compiler/ir/softmax.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

bool isQuotient(const Nest& nest) {
  return !nest.hasReduction() && isSimple(nest, 2) && isQuotientBody(*nest.statements[0].body());
}

/// Translates the access `other` of nest `from` to the loops of nest `to`. Both nests access one buffer, `from` by
/// `walked` and `to` by `walk`; loops correspond if they have the same stride and extent there. Nothing if some loop
/// has no counterpart.
std::optional<Access> inLoopsOf(const Nest& to, const Access& walk, const Nest& from, const Access& walked,
                                const Access& other) {
  if (walk.offset != walked.offset) return std::nullopt;
  Access result = other;
  result.strides.assign(to.loops(), 0);
  int matched = 0;
  for (int loop = 0; loop < from.loops(); ++loop) {
    if (from.extents[loop] == 1) continue;
    int found = -1;
    for (int l = 0; l < to.loops(); ++l)
      if (walk.strides[l] == walked.strides[loop] && to.extents[l] == from.extents[loop] && walk.strides[l] != 0)
        found = l;
    if (found < 0) return std::nullopt;
    ++matched;
    result.strides[found] = other.strides[loop];
  }
  // Every loop of `to` that moves the access must have been matched as well.
  for (int l = 0; l < to.loops(); ++l) matched -= walk.strides[l] != 0 && to.extents[l] > 1;
  if (matched != 0) return std::nullopt;
  return result;
}

/// Moves the division of nest `d` after the product that reads its quotient.
bool deferDivision(SlicedNests& nests, size_t d) {
  const Nest& divide = nests.nests[d];
  const Operand &dividend = divide.statements[0].inputs[0], &divisor = divide.statements[0].inputs[1];
  const Access& quotient = divide.statements[0].outputs[0].access;
  if (nests.isResult(quotient.root) || !sameWalk(dividend.access, quotient)) return false;
  // Exactly one nest may read the quotient: otherwise the division would be needed in memory.
  size_t reader = 0;
  for (size_t n = d + 1; n < nests.nests.size(); ++n) {
    if (!reads(nests.nests[n], quotient.root)) continue;
    if (reader > 0) return false;
    reader = n;
  }
  if (reader == 0) return false;
  // Dividing later must read the same values: no nest in between may write an operand or the quotient. An earlier
  // reader of the quotient's buffer would read another value.
  for (size_t n = 0; n < nests.nests.size(); ++n) {
    const bool between = n > d && n <= reader;
    if (n != d && dividend.access.root != quotient.root && n < d && reads(nests.nests[n], quotient.root)) return false;
    for (Value root : {quotient.root, dividend.access.root, divisor.access.root})
      if (between && writes(nests.nests[n], root)) return false;
  }
  Nest& product = nests.nests[reader];
  Statement& main = product.statements[0];
  if (!isContraction(product) || !main.init[0] || !mlir::matchPattern(main.init[0], mlir::m_AnyZeroFloat()))
    return false;
  int input = -1, uses = 0;
  for (const Statement& statement : product.statements)
    for (auto [i, operand] : llvm::enumerate(statement.inputs))
      if (operand.access.root == quotient.root && !operand.from) {
        ++uses;
        if (&statement == &main) input = static_cast<int>(i);
      }
  if (uses != 1 || input < 0) return false;
  auto sum = inLoopsOf(product, main.inputs[input].access, divide, quotient, divisor.access);
  if (!sum) return false;
  for (int loop = 0; loop < product.loops(); ++loop)
    // The divisor must be the same for all terms of the sum: only then can it be factored out.
    if (product.reduction[loop] && sum->strides[loop] != 0) return false;

  // The division becomes a follower of the product, on the sum in its register.
  Statement division = divide.statements[0];
  division.inputs[0] = main.outputs[0];
  division.inputs[0].from = RegisterRef{0, 0};
  division.inputs[1].access = *sum;
  division.outputs[0] = main.outputs[0];
  division.stored[0] = main.stored[0];
  division.index_weights.assign(divide.loops(), llvm::SmallVector<int64_t>(product.loops(), 0));
  main.inputs[input].access.root = dividend.access.root;
  main.stored[0] = false;
  for (size_t s = 1; s < product.statements.size(); ++s)
    for (Operand& operand : product.statements[s].inputs)
      // A statement is inserted before these, so their references shift by one.
      if (operand.from) ++operand.from->statement;
  product.statements.insert(product.statements.begin() + 1, std::move(division));
  nests.nests.erase(nests.nests.begin() + static_cast<int64_t>(d));
  return true;
}

int reductionLoop(const Nest& nest) {
  return static_cast<int>(llvm::find(nest.reduction, true) - nest.reduction.begin());
}

/// `access` without the reduction loops of its nest.
Access overRows(const Nest& nest, const Access& access, Value root) {
  Access result = access;
  result.root = root;
  result.strides.clear();
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop]) result.strides.push_back(access.strides[loop]);
  return result;
}

/// A nest over the parallel loops of `like` that applies `operation` to the inputs.
Nest rowNest(const Nest& like, mlir::linalg::LinalgOp operation, llvm::ArrayRef<Access> inputs, const Access& output) {
  Nest nest;
  for (int loop = 0; loop < like.loops(); ++loop)
    if (!like.reduction[loop]) {
      nest.extents.push_back(like.extents[loop]);
      nest.reduction.push_back(false);
    }
  Statement statement;
  statement.op = operation;
  for (const Access& input : inputs) statement.inputs.push_back({input, nullptr, std::nullopt});
  statement.outputs.push_back({output, nullptr, std::nullopt});
  statement.init.push_back(nullptr);
  statement.stored.push_back(true);
  nest.statements.push_back(std::move(statement));
  return nest;
}

/// The followers of the product, applied to the accumulator in memory: `product` without its first statement and its
/// reduction.
Nest lastStep(const Nest& product, Value accumulator) {
  Nest nest = rowNest(product, product.statements[1].op, {}, {});
  nest.statements.clear();
  for (size_t s = 1; s < product.statements.size(); ++s) {
    Statement statement = product.statements[s];
    for (Operand& input : statement.inputs) {
      if (!input.access.root) continue;
      input.access = overRows(product, input.access, input.access.root);
      if (!input.from) continue;
      // What came in a register from the first statement comes from memory now; the others move up by one.
      if (input.from->statement == 0) {
        input = {overRows(product, product.statements[0].outputs[0].access, accumulator), nullptr, std::nullopt};
      } else {
        --input.from->statement;
      }
    }
    for (Operand& output : statement.outputs) output.access = overRows(product, output.access, output.access.root);
    for (auto& weights : statement.index_weights) {
      llvm::SmallVector<int64_t> rows;
      for (int loop = 0; loop < product.loops(); ++loop)
        if (!product.reduction[loop]) rows.push_back(weights[loop]);
      weights = rows;
    }
    nest.statements.push_back(std::move(statement));
  }
  return nest;
}

/// Scalar operations of a softmax, on one element type.
class SoftmaxOps {
 public:
  SoftmaxOps(OpBuilder& builder, mlir::Type element) : b_(builder), element_(element) {}

  mlir::linalg::LinalgOp fill(double value) {
    return bodyOp(b_, element_, 0,
                  [&](OpBuilder& b, mlir::Location loc, mlir::ValueRange) -> Value { return constant(b, loc, value); });
  }
  mlir::linalg::LinalgOp copy() {
    return bodyOp(b_, element_, 1, [](OpBuilder&, mlir::Location, mlir::ValueRange v) -> Value { return v[0]; });
  }
  mlir::linalg::LinalgOp multiply() {
    return bodyOp(b_, element_, 2, [](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
      return arith::MulFOp::create(b, loc, v[0], v[1]);
    });
  }
  /// The maximum of two numbers; if one is a NaN the result is either of them, since the exponential and the row's sum
  /// are NaN in any case.
  mlir::linalg::LinalgOp maximum() {
    return bodyOp(b_, element_, 1, [](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
      return arith::MaximumFOp::create(b, loc, v[0], v[1], arith::FastMathFlags::nnan | arith::FastMathFlags::nsz);
    });
  }
  /// exp(v0 - v1), where v1 = -inf counts as 0.
  mlir::linalg::LinalgOp power() {
    return bodyOp(b_, element_, 2, [&](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
      Value lowest = constant(b, loc, -std::numeric_limits<double>::infinity());
      Value masked = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, v[1], lowest);
      Value from = arith::SelectOp::create(b, loc, masked, constant(b, loc, 0), v[1]);
      return atMostOne(b, loc, v[0], from);
    });
  }
  /// exp(v0 - v1) where v1 is the maximum over a row of v0.
  mlir::linalg::LinalgOp powerOfRow() {
    return bodyOp(b_, element_, 2, [](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
      return atMostOne(b, loc, v[0], v[1]);
    });
  }
  /// e = exp(v0 - v1) where v1 is the maximum over a row of v0, and the sum of the row so far + e.
  mlir::linalg::LinalgOp powerAndSum() {
    return bodyOp(b_, element_, 2, 2, [](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) {
      Value power = atMostOne(b, loc, v[0], v[1]);
      return llvm::SmallVector<Value>{power, arith::AddFOp::create(b, loc, v[3], power)};
    });
  }
  mlir::linalg::LinalgOp inverse() {
    return bodyOp(b_, element_, 1, [&](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
      return arith::DivFOp::create(b, loc, constant(b, loc, 1), v[0]);
    });
  }

 private:
  static Value atMostOne(OpBuilder& b, mlir::Location loc, Value x, Value maximum) {
    auto power = mlir::math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, x, maximum));
    power->setAttr(kNonPositiveArgument, b.getUnitAttr());
    return power;
  }
  Value constant(OpBuilder& b, mlir::Location loc, double value) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(element_, value));
  }
  OpBuilder& b_;
  mlir::Type element_;
};

/// Computes, stores and sums the powers in one pass over the rows: the nest of the sum replaces both nests.
void addUpPowers(SoftmaxOps& ops, SlicedNests& nests, const SoftmaxParts& parts) {
  Statement& sum = nests.nests[parts.sum].statements[0];
  const Operand powers = sum.inputs[0];
  Operand scores = powers;
  scores.access.root = nests.nests[parts.powers].statements[0].inputs[0].access.root;
  sum.op = ops.powerAndSum();
  sum.inputs = {scores, nests.nests[parts.maximum].statements[0].outputs[0]};
  sum.outputs.insert(sum.outputs.begin(), powers);
  sum.init.insert(sum.init.begin(), nullptr);
  sum.stored.insert(sum.stored.begin(), true);
  sum.index_weights.clear();
  // The sum is now the second output.
  ++nests.nests[parts.sum].statements[1].inputs[0].from->output;
  nests.nests.erase(nests.nests.begin() + static_cast<int64_t>(parts.powers));
}

}  // namespace

int deferDivisions(SlicedNests& nests) {
  int moved = 0;
  for (size_t n = 0; n < nests.nests.size();) {
    if (isQuotient(nests.nests[n]) && deferDivision(nests, n)) {
      ++moved;
    } else {
      ++n;
    }
  }
  return moved;
}

bool scaleByInverseSum(OpBuilder& builder, SlicedNests& nests) {
  const auto parts = findSoftmax(nests);
  if (!parts) return false;
  Nest &powers = nests.nests[parts->powers], &sum = nests.nests[parts->sum], &product = nests.nests[parts->product];
  const Access total = sum.statements[0].outputs[0].access;
  const Value scores = powers.statements[0].inputs[0].access.root, row = powers.statements[0].inputs[1].access.root;
  // Checks that the maximum is the row's own, over all elements that its sum adds up.
  const Nest& maximum = nests.nests[parts->maximum];
  const Access &scored = maximum.statements[0].inputs[0].access, &scores_read = powers.statements[0].inputs[0].access;
  const auto own = inLoopsOf(powers, scores_read, maximum, scored, maximum.statements[0].outputs[0].access);
  if (!own || !sameWalk(*own, powers.statements[0].inputs[1].access) ||
      !sameWalk(scores_read, powers.statements[0].outputs[0].access) ||
      !sameWalk(scored, sum.statements[0].inputs[0].access))
    return false;
  bool only_powers_read_maximum = !nests.isResult(row);
  for (size_t n = parts->maximum + 1; n < nests.nests.size(); ++n) {
    only_powers_read_maximum &= n == parts->powers || !reads(nests.nests[n], row);
    // Scores and maxima must be unchanged when the powers are computed.
    if (n < parts->powers && (writes(nests.nests[n], scores) || writes(nests.nests[n], row))) return false;
    if (n != parts->product && reads(nests.nests[n], total.root)) return false;
  }
  // The sum's buffer will hold the inverse, so only the product may read it.
  if (nests.isResult(total.root) || llvm::count_if(product.statements, [&](const Statement& statement) {
                                      return llvm::any_of(statement.inputs, [&](const Operand& input) {
                                        return input.access.root == total.root && !input.from;
                                      });
                                    }) != 1)
    return false;
  SoftmaxOps ops(builder, total.element);
  // The faster maximum may return either value if one is NaN, so no other nest may see it.
  if (only_powers_read_maximum) nests.nests[parts->maximum].statements[0].op = ops.maximum();
  Statement& power = powers.statements[0];
  power.op = ops.powerOfRow();
  Statement inverse = sum.statements[0];
  inverse.op = ops.inverse();
  inverse.inputs = {sum.statements[0].outputs[0]};
  inverse.inputs[0].from = RegisterRef{0, 0};
  inverse.init = {nullptr};
  inverse.stored = {true};
  sum.statements[0].stored[0] = false;
  sum.statements.push_back(std::move(inverse));
  product.statements[1].op = ops.multiply();
  if (parts->sum == parts->powers + 1) addUpPowers(ops, nests, *parts);
  return true;
}

absl::StatusOr<SliceLoop> runSoftmaxInBlocks(OpBuilder& builder, SlicedNests& nests, int64_t tile) {
  const auto parts = findSoftmax(nests);
  if (!parts)
    return refuseChain("r0 is named, and the last product reads no softmax", "r0",
                       "products with maximum, exp, sum and division over the rows between them");
  const Nest maximum = nests.nests[parts->maximum], powers = nests.nests[parts->powers], sum = nests.nests[parts->sum],
             product = nests.nests[parts->product];
  const Access &row = maximum.statements[0].outputs[0].access, &power = powers.statements[0].outputs[0].access;
  const Value old_maximum = row.root, old_sum = sum.statements[0].outputs[0].access.root;
  for (size_t n = 0; n < nests.nests.size(); ++n) {
    if (n == parts->maximum || n == parts->powers || n == parts->sum || n == parts->product) continue;
    for (Value root : {old_maximum, old_sum, power.root})
      if (n > parts->maximum ? reads(nests.nests[n], root) || writes(nests.nests[n], root)
                             : writes(nests.nests[n], root) && root != power.root)
        return refuseChain(absl::StrCat(describeNest(nests, n), " reads a part of the softmax as well"), "r0",
                           "a softmax that only the last product reads");
  }
  for (Value root : {old_maximum, old_sum, power.root})
    if (nests.isResult(root))
      return refuseChain("a part of the softmax is a result", "r0", "a softmax that only the last product reads");

  const mlir::Type element = row.element;
  auto allocate = [&](Value like) -> Value {
    Value made =
        mlir::memref::AllocOp::create(builder, builder.getUnknownLoc(), llvm::cast<mlir::MemRefType>(like.getType()));
    nests.coordinates[made] = nests.coordinates.at(like);
    return made;
  };
  const Access& result = product.statements[0].outputs[0].access;
  const Value m = allocate(old_maximum), before = allocate(old_maximum), factor = allocate(old_maximum),
              s = allocate(old_maximum), acc = allocate(result.root);
  SoftmaxOps ops(builder, element);
  const Access row_m = overRows(maximum, row, m), row_before = overRows(maximum, row, before),
               row_factor = overRows(maximum, row, factor), row_s = overRows(maximum, row, s);
  const Access acc_access = overRows(product, result, acc);
  // In the loops of the product, the row factor is accessed like the sum.
  Access product_factor = overRows(product, product.statements[1].inputs[1].access, factor);

  std::vector<Nest> all;
  std::vector<When> when;
  auto add = [&](Nest nest, When time) {
    all.push_back(std::move(nest));
    when.push_back(time);
    return all.size() - 1;
  };
  // m = -inf, s = 0, acc = 0.
  add(rowNest(maximum, ops.fill(-std::numeric_limits<double>::infinity()), {}, row_m), When::kFirstBlock);
  add(rowNest(maximum, ops.fill(0), {}, row_s), When::kFirstBlock);
  add(rowNest(product, ops.fill(0), {}, acc_access), When::kFirstBlock);
  for (size_t n = 0; n < parts->product; ++n)
    if (n != parts->maximum && n != parts->powers && n != parts->sum) add(nests.nests[n], When::kByNeed);
  // The old maximum is needed for the factor.
  add(rowNest(maximum, ops.copy(), {row_m}, row_before), When::kEveryBlock);

  // m = max(m, S): the statement keeps its accumulator in memory, since it has no initial value any more.
  Nest running = maximum;
  running.statements[0].op = ops.maximum();
  running.statements[0].outputs[0].access.root = m;
  running.statements[0].init[0] = nullptr;
  const size_t maximum_at = add(running, When::kEveryBlock);
  Nest block_powers = powers;
  block_powers.statements[0].op = ops.power();
  block_powers.statements[0].inputs[1].access.root = m;
  block_powers.statements[0].index_weights.clear();
  add(std::move(block_powers), When::kEveryBlock);  // directly after the maximum, while its rows are in cache
  // f = exp(m - m'), s = f s
  add(rowNest(maximum, ops.power(), {row_before, row_m}, row_factor), When::kEveryBlock);
  add(rowNest(maximum, ops.multiply(), {row_s, row_factor}, row_s), When::kEveryBlock);
  running = sum;  // s += sum of E
  running.statements[0].outputs[0].access.root = s;
  running.statements[0].init[0] = nullptr;
  const size_t sum_at = add(running, When::kEveryBlock);
  // acc = f acc + E V
  add(rowNest(product, ops.multiply(), {acc_access, product_factor}, acc_access), When::kEveryBlock);
  running = product;
  running.statements.resize(1);
  running.statements[0].outputs[0].access.root = acc;
  running.statements[0].init[0] = nullptr;
  running.statements[0].stored[0] = true;
  const size_t product_at = add(running, When::kEveryBlock);
  // result = acc / s, then the other statements of the product.
  Nest last = lastStep(product, acc);
  last.statements[0].inputs[1].access.root = s;
  add(std::move(last), When::kLastBlock);
  for (size_t n = parts->product + 1; n < nests.nests.size(); ++n) add(nests.nests[n], When::kLastBlock);

  SliceLoop blocks;
  blocks.coordinate = -1;
  blocks.tile = tile;
  blocks.extent = product.extents[parts->key];
  blocks.reductions = {{maximum_at, reductionLoop(maximum)}, {sum_at, reductionLoop(sum)}, {product_at, parts->key}};
  nests.nests = std::move(all);
  nests.when = std::move(when);
  return blocks;
}

}  // namespace tessera::compiler::codegen
