#include "compiler/backends/spatial_access.h"

#include "compiler/loopnest/subscript.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace tessera::compiler::spatial {
namespace {

using loopnest::Digit;
using loopnest::Subscript;
using loopnest::Term;

/// The largest number that a subscript may contain (loopnest::parseSubscript).
constexpr int64_t kLargestNumber = int64_t{1} << 31;

bool isSmall(int64_t number) { return number > -kLargestNumber && number < kLargestNumber; }

void addTerm(std::vector<Term>& terms, int loop, int64_t coefficient) {
  for (Term& term : terms) {
    if (term.loop != loop) continue;
    term.coefficient += coefficient;
    return;
  }
  terms.push_back({.loop = loop, .coefficient = coefficient});
}

Subscript scaled(Subscript value, int64_t factor) {
  for (Term& term : value.terms) term.coefficient *= factor;
  for (Digit& digit : value.digits) digit.coefficient *= factor;
  value.constant *= factor;
  return value;
}

Subscript sumOf(Subscript left, const Subscript& right) {
  for (const Term& term : right.terms) addTerm(left.terms, term.loop, term.coefficient);
  left.digits.insert(left.digits.end(), right.digits.begin(), right.digits.end());
  left.constant += right.constant;
  std::erase_if(left.terms, [](const Term& term) { return term.coefficient == 0; });
  return left;
}

/// Whether the value is one digit and nothing else, so that quotients and remainders of it are digits too.
bool isDigit(const Subscript& value) {
  return value.terms.empty() && value.constant == 0 && value.digits.size() == 1 && value.digits[0].coefficient == 1;
}

std::optional<Subscript> quotient(const Subscript& value, int64_t divisor) {
  if (divisor <= 0) return std::nullopt;
  if (value.isAffine())
    return Subscript{.digits = {{.terms = value.terms, .constant = value.constant, .divisor = divisor}}};
  if (!isDigit(value)) return std::nullopt;
  Digit digit = value.digits[0];
  // (x mod m) / d is (x / d) mod (m / d) if d divides m.
  if (digit.modulus % divisor != 0) return std::nullopt;
  digit.divisor *= divisor;
  digit.modulus /= divisor;
  return Subscript{.digits = {digit}};
}

std::optional<Subscript> remainder(const Subscript& value, int64_t modulus) {
  if (modulus <= 0) return std::nullopt;
  if (value.isAffine())
    return Subscript{.digits = {{.terms = value.terms, .constant = value.constant, .modulus = modulus}}};
  if (!isDigit(value)) return std::nullopt;
  Digit digit = value.digits[0];
  if (digit.modulus % modulus != 0) return std::nullopt;
  digit.modulus = modulus;
  return Subscript{.digits = {digit}};
}

std::optional<Subscript> subscriptOf(mlir::AffineExpr expression) {
  if (auto dimension = llvm::dyn_cast<mlir::AffineDimExpr>(expression))
    return Subscript{.terms = {{.loop = static_cast<int>(dimension.getPosition())}}};
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expression))
    return Subscript{.constant = constant.getValue()};
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expression);
  if (!binary) return std::nullopt;
  const std::optional<Subscript> left = subscriptOf(binary.getLHS());
  if (!left) return std::nullopt;
  if (expression.getKind() == mlir::AffineExprKind::Add) {
    const std::optional<Subscript> right = subscriptOf(binary.getRHS());
    return right ? std::optional(sumOf(*left, *right)) : std::nullopt;
  }
  auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS());
  if (!constant) return std::nullopt;
  const int64_t number = constant.getValue();
  switch (expression.getKind()) {
    case mlir::AffineExprKind::Mul:
      return scaled(*left, number);
    case mlir::AffineExprKind::FloorDiv:
      return quotient(*left, number);
    case mlir::AffineExprKind::CeilDiv:
      return quotient(sumOf(*left, {.constant = number - 1}), number);
    case mlir::AffineExprKind::Mod:
      return remainder(*left, number);
    default:
      return std::nullopt;
  }
}

bool isSmall(const std::vector<Term>& terms) {
  return llvm::all_of(terms, [](const Term& term) { return isSmall(term.coefficient); });
}

bool isSmall(const Subscript& subscript) {
  const auto small = [](const Digit& digit) {
    return isSmall(digit.terms) && isSmall(digit.constant) && isSmall(digit.divisor) && isSmall(digit.modulus) &&
           isSmall(digit.coefficient);
  };
  return isSmall(subscript.terms) && isSmall(subscript.constant) && llvm::all_of(subscript.digits, small);
}

}  // namespace

std::optional<View> viewOf(mlir::Value memref) {
  auto type = llvm::dyn_cast<mlir::MemRefType>(memref.getType());
  if (!type) return std::nullopt;
  View view{.root = memref};
  const bool known = type.hasStaticShape() && mlir::succeeded(type.getStridesAndOffset(view.strides, view.offset)) &&
                     !mlir::ShapedType::isDynamic(view.offset) &&
                     llvm::none_of(view.strides, mlir::ShapedType::isDynamic);
  mlir::Operation* op = memref.getDefiningOp();
  // A cast may forget an offset or a stride that its source states.
  if (auto cast = llvm::dyn_cast_or_null<mlir::memref::CastOp>(op); cast && !known) return viewOf(cast.getSource());
  if (!known) return std::nullopt;
  while (op != nullptr) {
    auto source = llvm::dyn_cast<mlir::ViewLikeOpInterface>(op);
    if (!source) break;
    view.root = source.getViewSource();
    op = view.root.getDefiningOp();
  }
  return view;
}

std::optional<std::string> subscriptText(mlir::AffineExpr expression, const std::vector<std::string>& names) {
  const std::optional<Subscript> subscript = subscriptOf(expression);
  if (!subscript || !isSmall(*subscript)) return std::nullopt;
  std::string text = loopnest::print(*subscript, names);
  return text.size() <= loopnest::kMaxSubscriptBytes ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace tessera::compiler::spatial
