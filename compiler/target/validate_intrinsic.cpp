#include "compiler/target/validate_intrinsic.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/loopnest/subscript.h"
#include "compiler/target/digits.h"
#include "compiler/target/element_text.h"
#include "compiler/target/stride.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 24;
constexpr int64_t kMaxSubscript = int64_t{1} << 40;
constexpr int kMaxTypeLength = 63;

using Form = v1::Intrinsic::Arithmetic;

class IntrinsicValidator {
 public:
  IntrinsicValidator(std::string at, const v1::Intrinsic& intrinsic, const std::set<std::string>& memories,
                     Problems& problems)
      : at_(std::move(at)), intrinsic_(intrinsic), memories_(memories), problems_(problems) {}

  void run() {
    problems_.checkToken(at_ + "name", intrinsic_.name());
    if (intrinsic_.emit().empty()) {
      problems_.add(at_ + "emit", "is empty; name an LLVM intrinsic, an MLIR operation or a function");
    }
    problems_.checkRange(at_ + "latency_cycles", intrinsic_.latency_cycles(), 0, 1 << 20);
    problems_.checkNonNegative(at_ + "cycles_per_issue", intrinsic_.cycles_per_issue());
    problems_.checkNonNegative(at_ + "energy_pj", intrinsic_.energy_pj());
    if (!intrinsic_.unit().empty()) problems_.checkToken(at_ + "unit", intrinsic_.unit());
    if (!counts()) return;
    for (int i = 0; i < intrinsic_.features_size(); ++i) {
      problems_.checkToken(absl::StrCat(at_, "features[", i, "]"), intrinsic_.features(i));
    }
    iterations();
    operands();
    bounds();
    if (intrinsic_.has_arithmetic()) arithmetic();
    if (intrinsic_.has_emission()) emission();
    for (int i = 0; i < intrinsic_.transfers_size(); ++i) {
      transfer(absl::StrCat(at_, "transfers[", i, "]."), intrinsic_.transfers(i));
    }
    if (intrinsic_.has_threads()) threads(at_ + "threads.", intrinsic_.threads());
  }

 private:
  bool counts() {
    bool fit = problems_.checkCount(at_ + "iterations", intrinsic_.iterations_size());
    fit = problems_.checkCount(at_ + "operands", intrinsic_.operands_size()) && fit;
    fit = problems_.checkCount(at_ + "features", intrinsic_.features_size()) && fit;
    fit = problems_.checkCount(at_ + "bounds", intrinsic_.bounds_size()) && fit;
    return problems_.checkCount(at_ + "transfers", intrinsic_.transfers_size()) && fit;
  }

  void iterations() {
    for (int i = 0; i < intrinsic_.iterations_size(); ++i) {
      const std::string here = absl::StrCat(at_, "iterations[", i, "].");
      const v1::Intrinsic::IterDim& iteration = intrinsic_.iterations(i);
      problems_.checkIdentifier(here + "name", iteration.name());
      problems_.checkRange(here + "extent", iteration.extent(), 1, kMaxExtent);
      if (!extents_.emplace(iteration.name(), iteration.extent()).second) problems_.add(here + "name", "is used twice");
    }
  }

  /// Whether all names of a subscript are iterations.
  bool known(const std::string& field, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (extents_.contains(name)) continue;
      problems_.add(field, absl::StrCat("'", absl::CHexEscape(name), "' is no iteration of this intrinsic; accepted: ",
                                        absl::StrJoin(extents_, ", ", [](std::string* out, const auto& entry) {
                                          absl::StrAppend(out, absl::CHexEscape(entry.first));
                                        })));
      return false;
    }
    return true;
  }

  void subscript(const std::string& field, const std::string& text) {
    if (problems_.full()) return;
    std::vector<std::string> names;
    const absl::StatusOr<loopnest::Subscript> affine = loopnest::parseSubscript(text, names);
    if (!affine.ok() || !affine->isAffine()) {
      const std::string fault = affine.ok() ? "has a quotient or remainder; accepted is a sum of iterations"
                                            : std::string(affine.status().message());
      problems_.add(field, absl::StrCat("'", absl::CHexEscape(text), "': ", fault));
      return;
    }
    if (!known(field, names)) return;
    double low = static_cast<double>(affine->constant), high = low;
    for (const loopnest::Term& term : affine->terms) {
      const auto extent = static_cast<double>(extents_.at(names[static_cast<size_t>(term.loop)]));
      const double reach = static_cast<double>(term.coefficient) * (extent - 1);
      (reach < 0 ? low : high) += reach;
    }
    if (low < 0 && intrinsic_.bounds().empty()) {
      problems_.add(field, absl::StrCat("'", text, "' goes down to ", low, "; subscripts start at 0"));
    }
    if (high > static_cast<double>(kMaxSubscript)) {
      problems_.add(field, absl::StrCat("'", text, "' goes up to ", high, "; at most ", kMaxSubscript, " is accepted"));
    }
  }

  void operands() {
    if (intrinsic_.operands_size() < 2) problems_.add(at_ + "operands", "needs a destination and at least one source");
    for (int i = 0; i < intrinsic_.operands_size(); ++i) {
      const v1::Intrinsic::Operand& operand = intrinsic_.operands(i);
      const std::string here = absl::StrCat(at_, "operands[", i, "].");
      problems_.checkToken(here + "name", operand.name());
      if (!ranks_.emplace(operand.name(), operand.subscripts_size()).second) {
        problems_.add(here + "name", "is the name of an earlier operand too");
      }
      if (!v1::DataType_IsValid(operand.dtype()) || operand.dtype() == v1::DATA_TYPE_UNSPECIFIED) {
        problems_.add(here + "dtype", "is not a known element type");
      }
      if (!operand.memory().empty()) memory(here + "memory", operand.memory());
      if (!problems_.checkCount(here + "subscripts", operand.subscripts_size())) continue;
      for (int s = 0; s < operand.subscripts_size(); ++s) {
        subscript(absl::StrCat(here, "subscripts[", s, "]"), operand.subscripts(s));
      }
    }
  }

  void memory(const std::string& field, const std::string& name) {
    if (memories_.contains(name) || problems_.full()) return;
    problems_.add(field, absl::StrCat("'", absl::CHexEscape(name), "' is no memory of this target; accepted: ",
                                      absl::CHexEscape(absl::StrJoin(memories_, ", "))));
  }

  void bounds() {
    for (int i = 0; i < intrinsic_.bounds_size(); ++i) {
      const std::string field = absl::StrCat(at_, "bounds[", i, "]");
      std::vector<std::string> names;
      const absl::StatusOr<loopnest::Subscript> bound = loopnest::parseBound(intrinsic_.bounds(i), names);
      if (!bound.ok()) {
        problems_.add(field, absl::StrCat("'", absl::CHexEscape(intrinsic_.bounds(i)),
                                          "': ", absl::string_view(bound.status().message())));
      } else if (known(field, names) && !bound->isAffine()) {
        problems_.add(field, "has a quotient or remainder; accepted is a sum of iterations");
      }
    }
  }

  void arithmetic() {
    const Form& arithmetic = intrinsic_.arithmetic();
    const std::string here = at_ + "arithmetic.";
    if (!Form::Form_IsValid(arithmetic.form()) || arithmetic.form() == Form::FORM_UNSPECIFIED) {
      return problems_.add(here + "form", "is not set; accepted: MULTIPLY_ADD, MULTIPLY, ADD, MAXIMUM, MINIMUM");
    }
    const int sources = intrinsic_.operands_size() - 1;
    const bool product = arithmetic.form() == Form::MULTIPLY_ADD || arithmetic.form() == Form::MULTIPLY;
    if (!product && sources != 1) {
      problems_.add(here + "form",
                    absl::StrCat(Form::Form_Name(arithmetic.form()), " has one source, this one has ", sources));
    }
    if (!v1::DataType_IsValid(arithmetic.intermediate())) {
      problems_.add(here + "intermediate", "is not a known element type");
    }
    const bool real = intrinsic_.operands_size() > 0 && isFloatingPoint(intrinsic_.operands(0).dtype());
    if (real && (arithmetic.overflow() != Form::OVERFLOW_UNSPECIFIED ||
                 arithmetic.intermediate_overflow() != Form::OVERFLOW_UNSPECIFIED)) {
      problems_.add(here + "overflow", "is set for a floating-point destination; leave it out");
    }
    if (!real && arithmetic.rounding() != Form::ROUNDING_UNSPECIFIED) {
      problems_.add(here + "rounding", "is set for an integer destination; leave it out");
    }
    if (intrinsic_.operands_size() == 0) return;
    std::set<std::string> kept;  // iterations that index the destination
    for (const std::string& text : intrinsic_.operands(0).subscripts()) {
      std::vector<std::string> names;
      const absl::StatusOr<loopnest::Subscript> affine = loopnest::parseSubscript(text, names);
      if (!affine.ok()) return;
      for (const loopnest::Term& term : affine->terms) kept.insert(names[static_cast<size_t>(term.loop)]);
    }
    for (int i = 0; i < intrinsic_.iterations_size(); ++i) {
      const v1::Intrinsic::IterDim& iteration = intrinsic_.iterations(i);
      if (iteration.reduction() != kept.contains(iteration.name())) continue;
      problems_.add(absl::StrCat(at_, "iterations[", i, "].reduction"),
                    iteration.reduction() ? "is set, but the iteration indexes the destination"
                                          : "is not set, but the iteration does not index the destination");
    }
  }

  void emission() {
    using Emission = v1::Intrinsic::Emission;
    const Emission& emission = intrinsic_.emission();
    const std::string here = at_ + "emission.";
    if (!Emission::Form_IsValid(emission.form()) || emission.form() == Emission::FORM_UNSPECIFIED) {
      problems_.add(here + "form", "is not set; accepted: LLVM_INTRINSIC, MLIR_OPERATION, EXTERNAL_CALL");
    }
    if (!problems_.checkCount(here + "arguments", emission.arguments_size())) return;
    for (int i = 0; i < emission.arguments_size(); ++i) {
      const v1::Intrinsic::Argument& argument = emission.arguments(i);
      const std::string place = absl::StrCat(here, "arguments[", i, "]");
      if (argument.operand().empty() == argument.literal().empty()) {
        problems_.add(place, "needs either an operand or a literal");
      } else if (!argument.operand().empty() && !ranks_.contains(argument.operand())) {
        problems_.add(place + ".operand",
                      absl::StrCat("'", absl::CHexEscape(argument.operand()), "' is no operand of this intrinsic"));
      }
      if (argument.type().size() > kMaxTypeLength || argument.literal().size() > kMaxTypeLength) {
        problems_.add(place, absl::StrCat("is longer than ", kMaxTypeLength, " characters"));
      }
    }
  }

  void transfer(const std::string& here, const v1::Intrinsic::Transfer& transfer) {
    const auto rank = ranks_.find(transfer.operand());
    if (rank == ranks_.end()) {
      return problems_.add(here + "operand", absl::StrCat("'", absl::CHexEscape(transfer.operand()),
                                                          "' is no operand of this intrinsic"));
    }
    memory(here + "from", transfer.from());
    memory(here + "to", transfer.to());
    if (transfer.from() == transfer.to()) problems_.add(here + "to", "is where the operand comes from");
    if (transfer.strides_size() != rank->second) {
      problems_.add(here + "strides", absl::StrCat("has ", transfer.strides_size(), " entries; the operand has ",
                                                   rank->second, " subscripts"));
    } else {
      for (int i = 0; i < transfer.strides_size(); ++i) {
        const absl::StatusOr<Stride> stride = parseStride(transfer.strides(i));
        if (stride.ok()) continue;
        problems_.add(absl::StrCat(here, "strides[", i, "]"), std::string(stride.status().message()));
      }
    }
    if (!problems_.checkCount(here + "block_order", transfer.block_order_size())) return;
    std::set<std::string> ordered;
    for (int i = 0; i < transfer.block_order_size(); ++i) {
      const std::string& name = transfer.block_order(i);
      if (extents_.contains(name) && ordered.insert(name).second) continue;
      problems_.add(absl::StrCat(here, "block_order[", i, "]"),
                    absl::StrCat("'", absl::CHexEscape(name), "' is no iteration of this intrinsic, or named twice"));
    }
    if (transfer.alignment_bytes() != 0)
      problems_.checkPowerOfTwo(here + "alignment_bytes", transfer.alignment_bytes());
  }

  void threads(const std::string& here, const v1::Intrinsic::ThreadGroup& group) {
    constexpr int kMaxThreads = 1024, kMaxRegisters = 255, kMaxRowBytes = 1 << 12;
    problems_.checkRange(here + "threads", group.threads(), 1, kMaxThreads);
    problems_.checkPowerOfTwo(here + "threads", group.threads());
    checkAssembly(here + "assembly", group.assembly(), problems_);
    if (!problems_.checkCount(here + "fragments", group.fragments_size())) return;
    if (!problems_.checkCount(here + "matrix_loads", group.matrix_loads_size())) return;
    const auto known = [&](const std::string& field, const std::string& operand) {
      if (ranks_.contains(operand)) return;
      problems_.add(field, absl::StrCat("'", absl::CHexEscape(operand), "' is no operand of this intrinsic"));
    };
    descriptors(here, group);
    for (int i = 0; i < group.fragments_size(); ++i) {
      const v1::Intrinsic::Fragment& fragment = group.fragments(i);
      const std::string at = absl::StrCat(here, "fragments[", i, "].");
      known(at + "operand", fragment.operand());
      problems_.checkRange(at + "registers", fragment.registers(), 1, kMaxRegisters);
      problems_.checkIdentifier(at + "register_type", fragment.register_type());
      digits(at + "lanes", fragment.lanes());
      digits(at + "slots", fragment.slots());
    }
    for (int i = 0; i < group.matrix_loads_size(); ++i) {
      const v1::Intrinsic::MatrixLoad& fetch = group.matrix_loads(i);
      const std::string at = absl::StrCat(here, "matrix_loads[", i, "].");
      known(at + "operand", fetch.operand());
      memory(at + "from", fetch.from());
      memory(at + "to", fetch.to());
      checkAssembly(at + "assembly", fetch.assembly(), problems_);
      if (!extents_.contains(fetch.along())) {
        problems_.add(at + "along",
                      absl::StrCat("'", absl::CHexEscape(fetch.along()), "' is no iteration of this intrinsic"));
      }
      if (!problems_.checkCount(at + "matrices", fetch.matrices_size()) || fetch.matrices().empty()) continue;
      for (int count : fetch.matrices()) problems_.checkRange(at + "matrices", count, 1, kMaxRegisters);
      problems_.checkRange(at + "rows", fetch.rows(), 1, kMaxThreads);
      problems_.checkRange(at + "row_bytes", fetch.row_bytes(), 1, kMaxRowBytes);
      problems_.checkPowerOfTwo(at + "row_bytes", fetch.row_bytes());
    }
  }

  void descriptors(const std::string& here, const v1::Intrinsic::ThreadGroup& group) {
    if (!problems_.checkCount(here + "descriptors", group.descriptors_size())) return;
    if (!problems_.checkCount(here + "modifiers", group.modifiers_size())) return;
    for (int i = 0; i < group.descriptors_size(); ++i) {
      const v1::Intrinsic::Descriptor& descriptor = group.descriptors(i);
      const std::string at = absl::StrCat(here, "descriptors[", i, "].");
      if (!ranks_.contains(descriptor.operand())) {
        problems_.add(at + "operand",
                      absl::StrCat("'", absl::CHexEscape(descriptor.operand()), "' is no operand of this intrinsic"));
      }
      memory(at + "from", descriptor.from());
      if (!extents_.contains(descriptor.along())) {
        problems_.add(at + "along",
                      absl::StrCat("'", absl::CHexEscape(descriptor.along()), "' is no iteration of this intrinsic"));
      }
      constexpr int kMinRowBytes = 16, kMaxRowBytes = 128, kMaxRows = 8;
      problems_.checkRange(at + "row_bytes", descriptor.row_bytes(), kMinRowBytes, kMaxRowBytes);
      problems_.checkPowerOfTwo(at + "row_bytes", descriptor.row_bytes());
      problems_.checkRange(at + "rows", descriptor.rows(), 1, kMaxRows);
      problems_.checkPowerOfTwo(at + "rows", descriptor.rows());
      if (!descriptor.modifier().empty()) modifier(at + "modifier", descriptor.modifier());
    }
    for (int i = 0; i < group.modifiers_size(); ++i)
      modifier(absl::StrCat(here, "modifiers[", i, "]"), group.modifiers(i));
    if (!group.has_asynchronous()) return;
    const auto& asynchronous = group.asynchronous();
    const std::string at = here + "asynchronous.";
    checkAssembly(at + "begin", asynchronous.begin(), problems_);
    checkAssembly(at + "commit", asynchronous.commit(), problems_);
    checkAssembly(at + "wait", asynchronous.wait(), problems_);
    checkAssembly(at + "publish", asynchronous.publish(), problems_);
  }

  void modifier(const std::string& field, const std::string& text) {
    const bool legal = text.size() <= 2 && !text.empty() && absl::ascii_isdigit(text.back()) &&
                       (text.size() == 1 || text[0] == '-' || absl::ascii_isdigit(text[0]));
    if (!legal) problems_.add(field, absl::StrCat("'", absl::CHexEscape(text), "' is no number of one or two signs"));
  }

  void digits(const std::string& field, const google::protobuf::RepeatedPtrField<std::string>& texts) {
    constexpr int kMaxDigits = 8;
    problems_.checkRange(field, texts.size(), 0, kMaxDigits);
    int64_t values = 1;
    for (int i = 0; i < std::min(texts.size(), kMaxDigits); ++i) {
      const std::string at = absl::StrCat(field, "[", i, "]");
      const absl::StatusOr<Digit> digit = parseDigit(texts[i]);
      if (!digit.ok()) {
        problems_.add(at, std::string(digit.status().message()));
        continue;
      }
      const auto extent = extents_.find(digit->iteration);
      if (extent == extents_.end()) {
        problems_.add(at, absl::StrCat("'", absl::CHexEscape(digit->iteration), "' is no iteration of this intrinsic"));
        continue;
      }
      const int64_t left = extent->second / digit->divisor, of = digit->values > 0 ? digit->values : left;
      if (left < 1 || of > left)
        problems_.add(at, absl::StrCat("goes beyond the ", extent->second, " of the iteration"));
      constexpr int64_t kMaxValues = 1 << 16;
      values *= std::clamp<int64_t>(of, 1, kMaxValues);
      if (values > kMaxValues) return problems_.add(field, absl::StrCat("have more than ", kMaxValues, " values"));
    }
  }

  const std::string at_;
  const v1::Intrinsic& intrinsic_;
  const std::set<std::string>& memories_;
  Problems& problems_;
  std::map<std::string, int64_t> extents_;
  std::map<std::string, int> ranks_;  // operand -> subscripts
};

}  // namespace

void checkAssembly(const std::string& field, const std::string& text, Problems& problems) {
  const bool legal = !text.empty() && text.size() <= 2 * kMaxTypeLength && absl::ascii_isalpha(text[0]) &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == ':' || c == '$' || c == ' ';
                     });
  if (legal) return;
  problems.add(field, "is no instruction of an assembler; accepted: letters, digits, '.', '_', ':', ' ' and '$'");
}

void validateIntrinsic(const std::string& at, const v1::Intrinsic& intrinsic, const std::set<std::string>& memories,
                       Problems& problems) {
  IntrinsicValidator(at, intrinsic, memories, problems).run();
}

void validateOverride(const std::string& at, const v1::Intrinsic& own, const v1::Intrinsic& described,
                      Problems& problems) {
  const auto differs = [&](const char* field) {
    problems.add(at + field, absl::StrCat("is not what the instruction set says of ", own.name(), ", ",
                                          computeText(described), "; leave it out"));
  };
  const auto sameIterations = [&] {
    if (own.iterations_size() != described.iterations_size()) return false;
    for (int i = 0; i < own.iterations_size(); ++i) {
      const auto &left = own.iterations(i), &right = described.iterations(i);
      if (left.name() != right.name() || left.extent() != right.extent() || left.reduction() != right.reduction()) {
        return false;
      }
    }
    return true;
  };
  if (own.iterations_size() > 0 && !sameIterations()) differs("iterations");
  if (own.has_arithmetic()) differs("arithmetic");
  if (own.bounds_size() > 0) differs("bounds");
  if (own.operands_size() == 0) return;
  if (own.operands_size() != described.operands_size()) return differs("operands");
  for (int i = 0; i < own.operands_size(); ++i) {
    const auto &left = own.operands(i), &right = described.operands(i);
    const bool same = left.name() == right.name() && left.dtype() == right.dtype() &&
                      std::equal(left.subscripts().begin(), left.subscripts().end(), right.subscripts().begin(),
                                 right.subscripts().end());
    if (!same) differs(absl::StrCat("operands[", i, "]").c_str());
  }
}

std::set<std::string> memoriesOf(const v1::Intrinsic& intrinsic) {
  std::set<std::string> names;
  for (const auto& operand : intrinsic.operands()) names.insert(operand.memory());
  for (const auto& transfer : intrinsic.transfers()) {
    names.insert(transfer.from());
    names.insert(transfer.to());
  }
  for (const char* anywhere : {"", kRegisters, kAnyMemory}) names.erase(anywhere);
  return names;
}

}  // namespace tessera::compiler
