#include "compiler/loopnest/nest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/loopnest/body.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::loopnest {
namespace {

bool contains(const std::vector<int>& list, int wanted) { return std::ranges::find(list, wanted) != list.end(); }

/// Checks one nest; every message begins with its name.
class Validator {
 public:
  explicit Validator(const Nest& nest) : nest_(nest) {}

  absl::Status run() const {
    if (nest_.statements.empty()) return fault("has no statement");
    for (const Loop& loop : nest_.loops) TESSERA_RETURN_IF_ERROR(check(loop));
    for (size_t a = 0; a < nest_.accesses.size(); ++a) TESSERA_RETURN_IF_ERROR(check(nest_.accesses[a], a));
    for (const Subscript& bound : nest_.bounds) TESSERA_RETURN_IF_ERROR(check(bound, "a bound"));
    for (const Statement& statement : nest_.statements) TESSERA_RETURN_IF_ERROR(check(statement));
    return absl::OkStatus();
  }

 private:
  template <typename... Parts>
  absl::Status fault(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat("loop nest '", nest_.name, "': ", parts...));
  }

  bool isLoop(int loop) const { return loop >= 0 && loop < static_cast<int>(nest_.loops.size()); }
  bool isAccess(int access) const { return access >= 0 && access < static_cast<int>(nest_.accesses.size()); }

  absl::Status check(const Loop& loop) const {
    if (loop.extent < 1) return fault("loop '", loop.name, "' has extent ", loop.extent, ", at least 1 is accepted");
    if (loop.min_tile < 1 || loop.multiple < 1) {
      return fault("loop '", loop.name, "' has tiles of at least ", loop.min_tile, ", multiples of ", loop.multiple,
                   "; both are at least 1");
    }
    if (loop.min_extent < 0 || loop.min_extent > loop.extent) {
      return fault("loop '", loop.name, "' has at least ", loop.min_extent, " iterations of ", loop.extent);
    }
    return absl::OkStatus();
  }

  absl::Status check(const Subscript& subscript, const std::string& place) const {
    const auto known = [&](const std::vector<Term>& terms) {
      return std::ranges::all_of(terms, [&](const Term& term) { return isLoop(term.loop); });
    };
    if (!known(subscript.terms)) return fault(place, " names a loop out of 0..", nest_.loops.size(), " - 1");
    for (const Digit& digit : subscript.digits) {
      if (!known(digit.terms)) return fault(place, " names a loop out of 0..", nest_.loops.size(), " - 1");
      if (digit.divisor < 1 || digit.modulus < 0) {
        return fault(place, " divides by ", digit.divisor, " and takes the remainder of ", digit.modulus,
                     "; accepted are a divisor of at least 1 and a remainder of 0 (none) or more");
      }
    }
    return absl::OkStatus();
  }

  absl::Status check(const Access& access, size_t position) const {
    for (const Subscript& subscript : access.subscripts) {
      TESSERA_RETURN_IF_ERROR(check(subscript, absl::StrCat("tensor '", access.name, "'")));
    }
    for (size_t other = 0; other < position; ++other) {
      const Access& earlier = nest_.accesses[other];
      if (earlier.name != access.name) continue;
      if (earlier.subscripts.size() != access.subscripts.size() || earlier.dtype != access.dtype) {
        return fault("tensor '", access.name, "' has ", earlier.subscripts.size(), " and ", access.subscripts.size(),
                     " dimensions, types ", v1::DataType_Name(earlier.dtype), " and ", v1::DataType_Name(access.dtype),
                     "; all accesses of a tensor agree");
      }
    }
    return absl::OkStatus();
  }

  absl::Status check(const Statement& statement) const {
    const std::string here = absl::StrCat("statement '", statement.name, "'");
    if (!isAccess(statement.output) || !std::ranges::all_of(statement.inputs, [&](int a) { return isAccess(a); }))
      return fault(here, " names a tensor out of 0..", nest_.accesses.size(), " - 1");
    for (const int loop : statement.loops)
      if (!isLoop(loop)) return fault(here, " names a loop out of 0..", nest_.loops.size(), " - 1");
    std::vector<int> operands = statement.inputs;
    operands.push_back(statement.output);
    for (const int access : operands)
      for (int loop = 0; loop < static_cast<int>(nest_.loops.size()); ++loop)
        if (nest_.uses(access, loop) && !contains(statement.loops, loop))
          return fault(here, " accesses '", nest_.accesses[static_cast<size_t>(access)].name, "' by the loop '",
                       nest_.loops[static_cast<size_t>(loop)].name, "', which is not among its own");
    return checkBody(statement, here);
  }

  absl::Status checkBody(const Statement& statement, const std::string& here) const {
    const Body& body = statement.body;
    if (body.opaque) return absl::OkStatus();
    if (statement.inputs.empty() && body.operations.empty()) return fault(here, " has neither inputs nor operations");
    const bool reduces =
        std::ranges::any_of(statement.loops, [&](int loop) { return !nest_.uses(statement.output, loop); });
    if (reduces && body.combine == Combine::kAssign)
      return fault(here, " assigns an element several times; its values must be combined");
    for (size_t o = 0; o < body.operations.size(); ++o) {
      const Operation& operation = body.operations[o];
      const OperationKind* kind = operationKind(operation.name);
      if (kind == nullptr) return fault(here, " has the unknown operation '", operation.name, "'");
      const int values = static_cast<int>(statement.inputs.size() + o);
      const bool earlier = std::ranges::all_of(operation.operands, [&](int v) { return v >= 0 && v < values; });
      if (operation.operands.size() != kind->operands || !earlier)
        return fault(here, " computes ", operation.name, " of ", operation.operands.size(), " values; ", kind->operands,
                     " of its ", values, " earlier ones are accepted");
    }
    return absl::OkStatus();
  }

  const Nest& nest_;
};

}  // namespace

bool Access::uses(int loop) const {
  return std::ranges::any_of(subscripts, [&](const Subscript& subscript) { return subscript.uses(loop); });
}

int Nest::loopNamed(const std::string& wanted) const {
  const auto found = std::ranges::find(loops, wanted, &Loop::name);
  return found == loops.end() ? -1 : static_cast<int>(found - loops.begin());
}

bool Nest::isReduction(int loop, size_t statement) const {
  return contains(statements[statement].loops, loop) && !uses(statements[statement].output, loop);
}

bool Nest::isIntermediate(int access) const {
  bool written = false;
  for (const Statement& statement : statements) {
    if (written && contains(statement.inputs, access)) return true;
    written |= statement.output == access;
  }
  return false;
}

bool Nest::isAffine() const {
  return std::ranges::all_of(bounds, &Subscript::isAffine) && std::ranges::all_of(accesses, [](const Access& access) {
           return std::ranges::all_of(access.subscripts, &Subscript::isAffine);
         });
}

std::vector<int64_t> Nest::extents() const {
  std::vector<int64_t> extents;
  extents.reserve(loops.size());
  for (const Loop& loop : loops) extents.push_back(loop.extent);
  return extents;
}

absl::Status validate(const Nest& nest) { return Validator(nest).run(); }

std::vector<int64_t> shapeOf(const Nest& nest, const Access& access) {
  const std::vector<int64_t> extents = nest.extents();
  std::vector<int64_t> shape;
  shape.reserve(access.subscripts.size());
  for (const Subscript& subscript : access.subscripts) {
    const Range range = rangeOf(subscript, extents);
    shape.push_back(range.low < 0 ? -1 : std::min(range.high, INT64_MAX - 1) + 1);
  }
  return shape;
}

Offset offsetOf(const Nest& nest, const Access& access) {
  Offset offset{std::vector<int64_t>(nest.loops.size(), 0), 0};
  const std::vector<int64_t> shape = shapeOf(nest, access);
  int64_t row = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    for (const Term& term : access.subscripts[d].terms)
      offset.strides[static_cast<size_t>(term.loop)] += term.coefficient * row;
    offset.constant += access.subscripts[d].constant * row;
    row *= shape[d];
  }
  return offset;
}

int64_t saturatedProduct(int64_t left, int64_t right) {
  int64_t product = 0;
  return __builtin_mul_overflow(left, right, &product) ? INT64_MAX : product;
}

}  // namespace tessera::compiler::loopnest
