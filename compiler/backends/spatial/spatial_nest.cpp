#include "compiler/backends/spatial/spatial_nest.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

using loopnest::Range;
using loopnest::Subscript;
using loopnest::Term;

constexpr int64_t kFar = int64_t{1} << 60;  ///< beyond any address, and far from overflow
constexpr size_t kMaxNameBytes = 256;

bool isKnown(v1::DataType type) { return type > v1::DATA_TYPE_UNSPECIFIED && type <= v1::DATA_TYPE_BOOL; }

/// left + factor * right for the numbers of addresses; false if the result is far outside of any buffer.
bool addProduct(int64_t factor, int64_t right, int64_t& left) {
  int64_t product = 0;
  return !__builtin_mul_overflow(factor, right, &product) && !__builtin_add_overflow(left, product, &left) &&
         left > -kFar && left < kFar;
}

bool addTerms(const std::vector<Term>& terms, int64_t factor, std::vector<Term>& sum) {
  for (const Term& term : terms) {
    auto same = std::ranges::find(sum, term.loop, &Term::loop);
    if (same == sum.end()) same = sum.insert(sum.end(), Term{term.loop, 0});
    if (!addProduct(factor, term.coefficient, same->coefficient)) return false;
  }
  return true;
}

/// Checks one nest; every message begins with its name.
class NestChecker {
 public:
  NestChecker(const v1::SpatialKernel::Nest& from, size_t number, const CheckedKernel& kernel)
      : from_(from), kernel_(kernel) {
    here_ = absl::StrCat("nest ", number);
    if (!from.name().empty() && from.name().size() <= kMaxNameBytes)
      absl::StrAppend(&here_, " (", absl::CHexEscape(from.name()), ")");
  }

  absl::StatusOr<SpatialNest> run() {
    if (from_.name().size() > kMaxNameBytes) return fault("its name has ", from_.name().size(), " bytes");
    nest_.name = from_.name();
    TESSERA_RETURN_IF_ERROR(loops());
    if (from_.accesses_size() > kMaxNestAccesses || from_.body_size() > kMaxNestOperations) {
      return fault("has ", from_.accesses_size(), " accesses and ", from_.body_size(), " operations; at most ",
                   kMaxNestAccesses, " and ", kMaxNestOperations, " are accepted");
    }
    if (from_.outputs() < 1 || from_.outputs() > from_.accesses_size() || from_.yields_size() != from_.outputs()) {
      return fault("has ", from_.outputs(), " outputs, ", from_.accesses_size(), " accesses and ", from_.yields_size(),
                   " yields; at least one output, and one yield for each, are accepted");
    }
    nest_.outputs = from_.outputs();
    for (int a = 0; a < from_.accesses_size(); ++a) TESSERA_RETURN_IF_ERROR(access(a));
    for (int o = 0; o < from_.body_size(); ++o) TESSERA_RETURN_IF_ERROR(operation(o));
    for (int output = 0; output < from_.outputs(); ++output) {
      const int value = from_.yields(output);
      if (!isValue(value, from_.body_size())) return fault("yield ", output, " names value ", value);
      if (!sameInArithmetic(nest_.typeOf(value), nest_.accesses[static_cast<size_t>(output)].dtype)) {
        return fault("yield ", output, " is ", elementText(nest_.typeOf(value)), ", its buffer ",
                     elementText(nest_.accesses[static_cast<size_t>(output)].dtype));
      }
      nest_.yields.push_back(value);
    }
    return std::move(nest_);
  }

 private:
  template <typename... Parts>
  absl::Status fault(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(here_, ": ", parts...));
  }

  bool isValue(int value, int operations) const { return value >= 0 && value < from_.accesses_size() + operations; }

  absl::Status loops() {
    if (from_.loops_size() > kMaxNestLoops)
      return fault("has ", from_.loops_size(), " loops; at most ", kMaxNestLoops, " are accepted");
    std::set<std::string> names;
    int64_t points = 1;
    for (const auto& loop : from_.loops()) {
      const std::string& name = loop.name();
      const bool word =
          !name.empty() && name.size() <= 64 && absl::ascii_isalpha(name[0]) &&
          std::ranges::all_of(name, [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.'; });
      if (!word || !names.insert(name).second) {
        return fault("loop name '", absl::CHexEscape(name.substr(0, 64)),
                     "'; accepted: a letter, then up to 63 letters, digits, '_' and '.', each name once");
      }
      if (loop.extent() < 1 || loop.extent() > kMaxExtent)
        return fault("loop ", name, " has extent ", loop.extent(), "; 1 to ", kMaxExtent, " are accepted");
      points = loopnest::saturatedProduct(points, loop.extent());
      nest_.loops.push_back({.name = name, .extent = loop.extent()});
    }
    if (points > kMaxNestPoints) return fault("has ", points, " points; at most ", kMaxNestPoints, " are accepted");
    names_ = nest_.loopNames();
    extents_ = nest_.extents();
    return absl::OkStatus();
  }

  /// Checks what an access and a load have in common.
  template <typename Where>
  absl::Status view(const v1::SpatialKernel::Access& from, const Where& where, SpatialAccess& access) const {
    if (from.buffer() < 0 || from.buffer() >= static_cast<int>(kernel_.types.size()))
      return fault(where, " names buffer ", from.buffer(), " of ", kernel_.types.size());
    access.buffer = from.buffer();
    access.dtype = kernel_.types[static_cast<size_t>(from.buffer())];
    access.offset = from.offset();
    if (access.offset < -kFar / 2 || access.offset > kFar / 2) return fault(where, " has offset ", access.offset);
    access.strides.assign(from.strides().begin(), from.strides().end());
    if (access.strides.size() > static_cast<size_t>(kMaxNestLoops))
      return fault(where, " has ", access.strides.size(), " strides; at most ", kMaxNestLoops, " are accepted");
    for (const int64_t stride : access.strides)
      if (stride < -kMaxBufferElements || stride > kMaxBufferElements)
        return fault(where, " has stride ", stride, "; at most ", kMaxBufferElements, " elements are accepted");
    return absl::OkStatus();
  }

  absl::Status access(int number) {
    const v1::SpatialKernel::Access& from = from_.accesses(number);
    const std::string where = absl::StrCat("access ", number);
    SpatialAccess access;
    TESSERA_RETURN_IF_ERROR(view(from, where, access));
    if (from.subscripts_size() != from.strides_size())
      return fault(where, " has ", from.subscripts_size(), " subscripts and ", from.strides_size(), " strides");
    access.position.constant = access.offset;
    bool near = true;
    for (int d = 0; d < from.subscripts_size(); ++d) {
      std::vector<std::string> names = names_;
      absl::StatusOr<Subscript> subscript = loopnest::parseSubscript(from.subscripts(d), names);
      if (!subscript.ok()) return fault(where, ", subscript ", d, ": ", subscript.status().message());
      if (names.size() > names_.size())
        return fault(where, ", subscript ", d, ": '", absl::CHexEscape(names.back()), "' is no loop of the nest");
      const int64_t stride = access.strides[static_cast<size_t>(d)];
      near = near && addProduct(stride, subscript->constant, access.position.constant) &&
             addTerms(subscript->terms, stride, access.position.terms);
      for (loopnest::Digit digit : subscript->digits) {
        const Range inside = loopnest::rangeOf(Subscript{digit.terms, digit.constant, {}}, extents_);
        int64_t coefficient = 0;
        near = near && inside.low > -kFar && inside.high < kFar && addProduct(stride, digit.coefficient, coefficient);
        digit.coefficient = coefficient;
        if (coefficient != 0) access.position.digits.push_back(std::move(digit));
      }
      access.subscripts.push_back(*std::move(subscript));
    }
    std::erase_if(access.position.terms, [](const Term& term) { return term.coefficient == 0; });
    access.range = loopnest::rangeOf(access.position, extents_);
    const int64_t elements = kernel_.elements[static_cast<size_t>(access.buffer)];
    if (!near || access.range.low < 0 || access.range.high >= elements) {
      return fault(where, " reaches elements ", access.range.low, " to ", access.range.high, " of buffer ",
                   access.buffer, ", which has ", elements);
    }
    nest_.accesses.push_back(std::move(access));
    return absl::OkStatus();
  }

  absl::Status operation(int number) {
    const v1::SpatialKernel::Operation& from = from_.body(number);
    const std::string where =
        absl::StrCat("operation ", number, " (", absl::CHexEscape(from.name().substr(0, 32)), ")");
    const ScalarOperation* kind = scalarOperation(from.name());
    if (kind == nullptr) return fault(where, " is no operation of arith or math that the simulator knows");
    if (!isKnown(from.dtype())) return fault(where, " has no element type");
    SpatialOperation operation;
    operation.name = from.name();
    operation.dtype = from.dtype();
    operation.operands.assign(from.operands().begin(), from.operands().end());
    const size_t wanted =
        kind->operands >= 0 ? static_cast<size_t>(kind->operands) : static_cast<size_t>(from.access().strides_size());
    if (operation.operands.size() != wanted)
      return fault(where, " has ", operation.operands.size(), " operands; ", wanted, " are accepted");
    for (const int value : operation.operands)
      if (!isValue(value, number)) return fault(where, " has operand ", value, ", which is no earlier value");
    if (kind->signature == Signature::kConstant) {
      if (static_cast<int64_t>(from.constant().size()) != elementBytes(from.dtype()))
        return fault(where, " has ", from.constant().size(), " bytes for one ", elementText(from.dtype()));
      operation.constant = from.constant();
    }
    if (kind->signature == Signature::kIndex) {
      if (from.loop() < 0 || from.loop() >= from_.loops_size()) return fault(where, " names loop ", from.loop());
      operation.loop = from.loop();
    }
    if (kind->signature == Signature::kLoad) {
      TESSERA_RETURN_IF_ERROR(view(from.access(), where, operation.access));
      if (from.access().subscripts_size() != 0) return fault(where, " has subscripts; its operands are the indices");
    }
    if (!fits(*kind, operation)) {
      return fault(where, " gives ", elementText(operation.dtype), ", which does not fit its operands' types");
    }
    nest_.body.push_back(std::move(operation));
    return absl::OkStatus();
  }

  bool fits(const ScalarOperation& kind, const SpatialOperation& operation) const {
    const v1::DataType to = operation.dtype;
    std::vector<v1::DataType> of;
    for (const int value : operation.operands) of.push_back(nest_.typeOf(value));
    const bool real = isFloatingPoint(to);
    const auto each = [&](auto&& accepted) { return std::ranges::all_of(of, accepted); };
    switch (kind.signature) {
      case Signature::kReal:
        return real && each([&](v1::DataType type) { return type == to; });
      case Signature::kWhole:
        return !real && each([&](v1::DataType type) { return sameInArithmetic(type, to); });
      case Signature::kCompareReal:
        return to == v1::DATA_TYPE_BOOL && isFloatingPoint(of[0]) && of[0] == of[1];
      case Signature::kCompareWhole:
        return to == v1::DATA_TYPE_BOOL && !isFloatingPoint(of[0]) && sameInArithmetic(of[0], of[1]);
      case Signature::kSelect:
        return of[0] == v1::DATA_TYPE_BOOL && sameInArithmetic(of[1], to) && sameInArithmetic(of[2], to);
      case Signature::kRealToReal:
        return real && isFloatingPoint(of[0]);
      case Signature::kWholeToWhole:
        return !real && !isFloatingPoint(of[0]);
      case Signature::kWiden:
        return !real && !isFloatingPoint(of[0]) && widthOf(to) >= widthOf(of[0]);
      case Signature::kNarrow:
        return !real && !isFloatingPoint(of[0]) && widthOf(to) <= widthOf(of[0]);
      case Signature::kWholeToReal:
        return real && !isFloatingPoint(of[0]);
      case Signature::kRealToWhole:
        return !real && isFloatingPoint(of[0]);
      case Signature::kBits:
        return widthOf(to) == widthOf(of[0]);
      case Signature::kConstant:
        return true;
      case Signature::kIndex:
        return to == v1::DATA_TYPE_I64;
      case Signature::kLoad:
        return sameInArithmetic(to, operation.access.dtype) &&
               each([](v1::DataType type) { return !isFloatingPoint(type) && widthOf(type) == 64; });
    }
    return false;
  }

  const v1::SpatialKernel::Nest& from_;
  const CheckedKernel& kernel_;
  std::string here_;
  std::vector<std::string> names_;
  std::vector<int64_t> extents_;
  SpatialNest nest_;
};

/// Whether different indices in the chosen loops always give different positions: sorted by stride, each loop steps
/// over everything that the loops before it reach. `apart`: with the other loops at any index.
bool separates(const SpatialNest& nest, const SpatialAccess& access, const std::vector<bool>& chosen) {
  if (!access.position.digits.empty()) return false;
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride and extent
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    const int64_t stride = access.position.coefficientOf(static_cast<int>(l));
    if (nest.loops[l].extent == 1) continue;
    if (!chosen[l]) {
      if (stride != 0) return false;
      continue;
    }
    steps.emplace_back(stride < 0 ? -stride : stride, nest.loops[l].extent);
  }
  std::ranges::sort(steps);
  int64_t reach = 0;
  for (const auto& [stride, extent] : steps) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);  // within the buffer, so there is no overflow
  }
  return true;
}

bool apart(const Range& left, const Range& right) { return left.high < right.low || right.high < left.low; }

}  // namespace

double SpatialNest::points() const {
  double points = 1;
  for (const loopnest::Loop& loop : loops) points *= static_cast<double>(loop.extent);
  return points;
}

v1::DataType SpatialNest::typeOf(int value) const {
  const auto position = static_cast<size_t>(value);
  return position < accesses.size() ? accesses[position].dtype : body[position - accesses.size()].dtype;
}

bool SpatialNest::reads(int access) const {
  return std::ranges::find(yields, access) != yields.end() || std::ranges::any_of(body, [&](const auto& operation) {
           return std::ranges::find(operation.operands, access) != operation.operands.end();
         });
}

std::vector<int64_t> SpatialNest::extents() const {
  std::vector<int64_t> extents;
  extents.reserve(loops.size());
  for (const loopnest::Loop& loop : loops) extents.push_back(loop.extent);
  return extents;
}

std::vector<std::string> SpatialNest::loopNames() const {
  std::vector<std::string> names;
  names.reserve(loops.size());
  for (const loopnest::Loop& loop : loops) names.push_back(loop.name);
  return names;
}

int64_t CheckedKernel::bytesOf(int buffer) const {
  const auto position = static_cast<size_t>(buffer);
  return loopnest::saturatedProduct(elements[position], elementBytes(types[position]));
}

absl::StatusOr<CheckedKernel> checkKernel(const v1::SpatialKernel& kernel) {
  if (kernel.buffers_size() > kMaxKernelBuffers || kernel.nests_size() > kMaxKernelNests) {
    return absl::InvalidArgumentError(absl::StrCat("the kernel has ", kernel.buffers_size(), " buffers and ",
                                                   kernel.nests_size(), " nests; at most ", kMaxKernelBuffers, " and ",
                                                   kMaxKernelNests, " are accepted"));
  }
  if (kernel.results() < 0 || kernel.operands() < kernel.results() || kernel.operands() > kernel.buffers_size()) {
    return absl::InvalidArgumentError(absl::StrCat("the kernel has ", kernel.buffers_size(), " buffers, ",
                                                   kernel.operands(), " operands and ", kernel.results(), " results"));
  }
  CheckedKernel checked;
  checked.operands = kernel.operands();
  for (int b = 0; b < kernel.buffers_size(); ++b) {
    const v1::SpatialKernel::Buffer& buffer = kernel.buffers(b);
    if (!isKnown(buffer.dtype())) return absl::InvalidArgumentError(absl::StrCat("buffer ", b, " has no element type"));
    int64_t elements = 1;
    for (const int64_t extent : buffer.shape())
      elements = extent < 0 ? INT64_MAX : loopnest::saturatedProduct(elements, extent);
    if (elements > kMaxBufferElements) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer ", b, " has a negative extent or more than ", kMaxBufferElements, " elements"));
    }
    checked.elements.push_back(elements);
    checked.types.push_back(buffer.dtype());
  }
  for (const auto& nest : kernel.nests()) {
    TESSERA_ASSIGN_OR_RETURN(SpatialNest next, NestChecker(nest, checked.nests.size(), checked).run());
    checked.nests.push_back(std::move(next));
  }
  return checked;
}

std::vector<bool> parallelLoopsOf(const SpatialNest& nest) {
  std::vector<bool> none(nest.loops.size(), false);
  std::vector<bool> chosen(nest.loops.size(), true);
  for (int output = 0; output < nest.outputs; ++output) {
    const SpatialAccess& written = nest.accesses[static_cast<size_t>(output)];
    for (size_t l = 0; l < nest.loops.size(); ++l)
      chosen[l] = chosen[l] && (nest.loops[l].extent == 1 || written.position.uses(static_cast<int>(l)));
  }
  for (int output = 0; output < nest.outputs; ++output) {
    const SpatialAccess& written = nest.accesses[static_cast<size_t>(output)];
    if (!separates(nest, written, chosen)) return none;
    for (size_t other = 0; other < nest.accesses.size(); ++other) {
      const SpatialAccess& access = nest.accesses[other];
      if (static_cast<int>(other) == output || access.buffer != written.buffer) continue;
      // An input that reads the output's own element at each point is as good as its old content.
      const bool own = static_cast<int>(other) >= nest.outputs && access.position == written.position;
      if (!own && !apart(access.range, written.range)) return none;
    }
    for (const SpatialOperation& operation : nest.body)
      if (operation.name == "load" && operation.access.buffer == written.buffer) return none;
  }
  return chosen;
}

}  // namespace tessera::compiler::simulator
