#include "compiler/ir/mask_bounds.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// A score below kRemovedBelow is removed: next to a kept score its exponential is zero in every type, and no addend
/// (at most kLargestScore) changes that. A score above kKeptAbove is kept.
constexpr double kRemovedBelow = -1e37, kKeptAbove = -1e32;
/// Integers up to this magnitude are exact as double.
constexpr double kExact = 9007199254740992.0;
constexpr int64_t kMinKeysPerGroup = 64;  // whole register tiles of any chip

Bounds known(double value) { return std::isnan(value) ? Bounds{} : Bounds{value, value}; }

Bounds between(std::initializer_list<double> values) {
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) return {};
  return {std::min(values), std::max(values)};
}

Bounds sum(const Bounds& a, const Bounds& b) {
  const double lo = a.lo + b.lo, hi = a.hi + b.hi;
  // Infinity minus infinity may be anything.
  return {std::isnan(lo) ? -kInfinity : lo, std::isnan(hi) ? kInfinity : hi};
}

Bounds negative(const Bounds& a) { return {-a.hi, -a.lo}; }

/// Integer sums that are too large wrap around, so nothing is known of them.
Bounds exact(const Bounds& a) { return a.lo < -kExact || a.hi > kExact ? Bounds{} : a; }

Bounds truth(std::optional<bool> value) { return value ? known(*value ? 1 : 0) : Bounds{0, 1}; }

std::optional<bool> less(const Bounds& a, const Bounds& b) {
  if (a.hi < b.lo) return true;
  if (a.lo >= b.hi) return false;
  return std::nullopt;
}

std::optional<bool> negated(std::optional<bool> value) { return value ? std::optional(!*value) : value; }

/// Compares as signed numbers; unsigned comparisons agree if nothing is negative.
std::optional<bool> compared(arith::CmpIPredicate predicate, const Bounds& a, const Bounds& b) {
  using P = arith::CmpIPredicate;
  const bool natural = a.lo >= 0 && b.lo >= 0;
  switch (predicate) {
    case P::ult:
    case P::slt:
      return predicate == P::slt || natural ? less(a, b) : std::nullopt;
    case P::ugt:
    case P::sgt:
      return predicate == P::sgt || natural ? less(b, a) : std::nullopt;
    case P::ule:
    case P::sle:
      return predicate == P::sle || natural ? negated(less(b, a)) : std::nullopt;
    case P::uge:
    case P::sge:
      return predicate == P::sge || natural ? negated(less(a, b)) : std::nullopt;
    case P::eq:
    case P::ne: {
      std::optional<bool> same;
      // Intervals that do not overlap differ; equal points are the same.
      if (a.hi < b.lo || b.hi < a.lo) same = false;
      if (a.lo == a.hi && b.lo == b.hi && a.lo == b.lo) same = true;
      return predicate == P::eq ? same : negated(same);
    }
  }
  return std::nullopt;
}

class Evaluation {
 public:
  Evaluation(llvm::function_ref<Bounds(unsigned)> argument, llvm::function_ref<Bounds(int64_t)> position)
      : argument_(argument), position_(position) {}

  Bounds of(Value value) {
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) return argument_(argument.getArgNumber());
    if (auto found = known_.find(value); found != known_.end()) return found->second;
    const Bounds bounds = computed(value, value.getDefiningOp());
    known_[value] = bounds;
    return bounds;
  }

 private:
  Bounds computed(Value value, mlir::Operation* op) {
    auto bounds = [&](unsigned operand) { return of(op->getOperand(operand)); };
    const bool is_bit = value.getType().isInteger(1);
    // A bit has the values 0 and 1 here; with a sign it would be 0 or -1.
    auto signedBounds = [&](unsigned operand) {
      return op->getOperand(operand).getType().isInteger(1) ? negative(bounds(operand)) : bounds(operand);
    };
    return llvm::TypeSwitch<mlir::Operation*, Bounds>(op)
        .Case([&](mlir::linalg::IndexOp index) { return position_(static_cast<int64_t>(index.getDim())); })
        .Case([&](arith::ConstantOp constant) {
          if (auto real = llvm::dyn_cast<mlir::FloatAttr>(constant.getValue())) return known(real.getValueAsDouble());
          auto integer = llvm::dyn_cast<mlir::IntegerAttr>(constant.getValue());
          if (!integer) return Bounds{};
          return is_bit ? truth(!integer.getValue().isZero())
                        : exact(known(static_cast<double>(integer.getValue().getSExtValue())));
        })
        .Case<arith::IndexCastOp, arith::ExtSIOp>(
            [&](auto) { return is_bit ? Bounds{} : fitting(value, signedBounds(0)); })
        .Case<arith::IndexCastUIOp, arith::ExtUIOp>([&](auto) {
          const Bounds from = bounds(0);
          return from.lo >= 0 ? fitting(value, from) : Bounds{};
        })
        .Case([&](arith::TruncIOp) {
          const Bounds from = bounds(0);
          if (!is_bit) return fitting(value, from);
          return from.lo >= 0 && from.hi <= 1 ? from : truth(std::nullopt);
        })
        .Case<arith::ExtFOp, arith::SIToFPOp>([&](auto) { return signedBounds(0); })
        .Case([&](arith::AddIOp) { return is_bit ? truth({}) : fitting(value, sum(bounds(0), bounds(1))); })
        .Case([&](arith::SubIOp) { return is_bit ? truth({}) : fitting(value, sum(bounds(0), negative(bounds(1)))); })
        .Case<arith::AddFOp>([&](auto) { return sum(bounds(0), bounds(1)); })
        .Case<arith::SubFOp>([&](auto) { return sum(bounds(0), negative(bounds(1))); })
        .Case<arith::MulFOp>([&](auto) {
          const Bounds a = bounds(0), b = bounds(1);
          // The extremes of a product are at the corners.
          return between({a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi});
        })
        .Case<arith::DivFOp>([&](auto) {
          const Bounds a = bounds(0), b = bounds(1);
          // A divisor that may be 0 gives anything.
          return b.lo == b.hi && b.lo != 0 ? between({a.lo / b.lo, a.hi / b.lo}) : Bounds{};
        })
        .Case<mlir::math::TanhOp>([&](auto) { return Bounds{-1, 1}; })
        .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) {
          const Bounds a = bounds(0), b = bounds(1);
          return Bounds{std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
        })
        .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) {
          const Bounds a = bounds(0), b = bounds(1);
          return Bounds{std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
        })
        .Case([&](arith::CmpIOp compare) {
          const bool bits = compare.getLhs().getType().isInteger(1);
          using P = arith::CmpIPredicate;
          if (bits && compare.getPredicate() != P::eq && compare.getPredicate() != P::ne) return truth(std::nullopt);
          return truth(compared(compare.getPredicate(), bounds(0), bounds(1)));
        })
        .Case([&](arith::CmpFOp compare) {
          // Only known numbers, such as those of a triangle of ones: an unknown value may be NaN.
          const Bounds a = bounds(0), b = bounds(1);
          if (a.lo != a.hi || b.lo != b.hi) return truth(std::nullopt);
          return truth(arith::applyCmpPredicate(compare.getPredicate(), llvm::APFloat(a.lo), llvm::APFloat(b.lo)));
        })
        .Case([&](arith::AndIOp) {
          const Bounds a = bounds(0), b = bounds(1);
          return is_bit ? Bounds{std::min(a.lo, b.lo), std::min(a.hi, b.hi)} : Bounds{};
        })
        .Case([&](arith::OrIOp) {
          const Bounds a = bounds(0), b = bounds(1);
          return is_bit ? Bounds{std::max(a.lo, b.lo), std::max(a.hi, b.hi)} : Bounds{};
        })
        .Case([&](arith::XOrIOp) {
          const Bounds a = bounds(0), b = bounds(1);
          if (!is_bit || a.lo != a.hi || b.lo != b.hi) return is_bit ? truth(std::nullopt) : Bounds{};
          return truth(a.lo != b.lo);
        })
        .Case([&](arith::SelectOp) {
          const Bounds condition = bounds(0);
          // A known condition leaves one side only.
          if (condition.lo == 1) return bounds(1);
          if (condition.hi == 0) return bounds(2);
          const Bounds a = bounds(1), b = bounds(2);
          return Bounds{std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
        })
        .Default([&](mlir::Operation*) { return is_bit ? truth(std::nullopt) : Bounds{}; });
  }

  /// Returns the bounds that the type of `value` can represent exactly.
  static Bounds fitting(Value value, const Bounds& bounds) {
    if (auto type = llvm::dyn_cast<mlir::IntegerType>(value.getType())) {
      const double limit = std::ldexp(1.0, static_cast<int>(std::min(53U, type.getWidth() - 1)));
      if (bounds.lo < -limit || bounds.hi >= limit) return {};
    }
    return exact(bounds);
  }

  llvm::function_ref<Bounds(unsigned)> argument_;
  llvm::function_ref<Bounds(int64_t)> position_;
  llvm::DenseMap<Value, Bounds> known_;
};

}  // namespace

Bounds boundsOf(Value value, llvm::function_ref<Bounds(unsigned)> argument,
                llvm::function_ref<Bounds(int64_t)> position) {
  return Evaluation(argument, position).of(value);
}

Masked maskedBy(const Bounds& scores) {
  return {.removed = scores.hi <= kRemovedBelow, .low = scores.hi > -kInfinity, .kept = scores.lo >= kKeptAbove};
}

Keys unmaskedKeys(int64_t keys, int64_t keys_per_group, llvm::function_ref<Masked(Keys)> mask) {
  Keys kept{0, keys};
  bool low = false;
  auto removes = [&](const Keys& part) {
    const Masked masked = mask(part);
    if (masked.removed) low |= masked.low;
    return masked.removed;
  };
  while (kept.size() > keys_per_group) {
    const int64_t at = (kept.hi - 1) / keys_per_group * keys_per_group;
    if (!removes({at, kept.hi})) break;
    kept.hi = at;
  }
  while (kept.size() > keys_per_group && removes({kept.lo, kept.lo + keys_per_group})) kept.lo += keys_per_group;
  if (!low) return kept;
  for (int64_t at = kept.lo; at < kept.hi; at += std::max<int64_t>(1, keys_per_group / 8))
    if (mask({at, at + 1}).kept) return kept;
  return {0, keys};
}

int64_t keysPerGroup(int64_t keys, int64_t groups) {
  const int64_t even = (keys + groups - 1) / groups;
  return (even + kMinKeysPerGroup - 1) / kMinKeysPerGroup * kMinKeysPerGroup;
}

}  // namespace tessera::compiler
