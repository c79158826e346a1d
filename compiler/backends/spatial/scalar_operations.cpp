#include "compiler/backends/spatial/scalar_operations.h"

#include <algorithm>
#include <array>
#include <span>

#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::simulator {
namespace {

constexpr auto kTranscendental = Work::kTranscendental;

constexpr ScalarOperation kOperations[] = {
    {"addf", 2},
    {"subf", 2},
    {"mulf", 2},
    {"divf", 2},
    {"remf", 2, Signature::kReal, kTranscendental},
    {"maximumf", 2},
    {"minimumf", 2},
    {"maxnumf", 2},
    {"minnumf", 2},
    {"negf", 1},
    {"absf", 1},
    {"copysign", 2},
    {"fma", 3},
    {"floor", 1},
    {"ceil", 1},
    {"trunc", 1},
    {"round", 1},
    {"roundeven", 1},
    {"sqrt", 1, Signature::kReal, kTranscendental},
    {"rsqrt", 1, Signature::kReal, kTranscendental},
    {"cbrt", 1, Signature::kReal, kTranscendental},
    {"exp", 1, Signature::kReal, kTranscendental},
    {"exp2", 1, Signature::kReal, kTranscendental},
    {"expm1", 1, Signature::kReal, kTranscendental},
    {"log", 1, Signature::kReal, kTranscendental},
    {"log2", 1, Signature::kReal, kTranscendental},
    {"log10", 1, Signature::kReal, kTranscendental},
    {"log1p", 1, Signature::kReal, kTranscendental},
    {"sin", 1, Signature::kReal, kTranscendental},
    {"cos", 1, Signature::kReal, kTranscendental},
    {"tan", 1, Signature::kReal, kTranscendental},
    {"asin", 1, Signature::kReal, kTranscendental},
    {"acos", 1, Signature::kReal, kTranscendental},
    {"atan", 1, Signature::kReal, kTranscendental},
    {"sinh", 1, Signature::kReal, kTranscendental},
    {"cosh", 1, Signature::kReal, kTranscendental},
    {"tanh", 1, Signature::kReal, kTranscendental},
    {"asinh", 1, Signature::kReal, kTranscendental},
    {"acosh", 1, Signature::kReal, kTranscendental},
    {"atanh", 1, Signature::kReal, kTranscendental},
    {"erf", 1, Signature::kReal, kTranscendental},
    {"erfc", 1, Signature::kReal, kTranscendental},
    {"powf", 2, Signature::kReal, kTranscendental},
    {"atan2", 2, Signature::kReal, kTranscendental},
    {"addi", 2, Signature::kWhole},
    {"subi", 2, Signature::kWhole},
    {"muli", 2, Signature::kWhole},
    {"divsi", 2, Signature::kWhole},
    {"divui", 2, Signature::kWhole},
    {"floordivsi", 2, Signature::kWhole},
    {"ceildivsi", 2, Signature::kWhole},
    {"ceildivui", 2, Signature::kWhole},
    {"remsi", 2, Signature::kWhole},
    {"remui", 2, Signature::kWhole},
    {"andi", 2, Signature::kWhole},
    {"ori", 2, Signature::kWhole},
    {"xori", 2, Signature::kWhole},
    {"shli", 2, Signature::kWhole},
    {"shrsi", 2, Signature::kWhole},
    {"shrui", 2, Signature::kWhole},
    {"maxsi", 2, Signature::kWhole},
    {"minsi", 2, Signature::kWhole},
    {"maxui", 2, Signature::kWhole},
    {"minui", 2, Signature::kWhole},
    {"absi", 1, Signature::kWhole},
    {"cmpf", 2, Signature::kCompareReal},
    {"cmpi", 2, Signature::kCompareWhole},
    {"select", 3, Signature::kSelect},
    {"extf", 1, Signature::kRealToReal},
    {"truncf", 1, Signature::kRealToReal},
    {"extsi", 1, Signature::kWiden},
    {"extui", 1, Signature::kWiden},
    {"trunci", 1, Signature::kNarrow},
    {"index_cast", 1, Signature::kWholeToWhole},
    {"index_castui", 1, Signature::kWholeToWhole},
    {"sitofp", 1, Signature::kWholeToReal},
    {"uitofp", 1, Signature::kWholeToReal},
    {"fptosi", 1, Signature::kRealToWhole},
    {"fptoui", 1, Signature::kRealToWhole},
    {"bitcast", 1, Signature::kBits},
    {"constant", 0, Signature::kConstant, Work::kNone},
    {"index", 0, Signature::kIndex, Work::kNone},
    {"load", -1, Signature::kLoad, Work::kGather},
};

constexpr std::array<std::string_view, 16> kReal = {"false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
                                                    "ueq",   "ugt", "uge", "ult", "ule", "une", "uno", "true"};
constexpr std::array<std::string_view, 10> kWhole = {"eq",  "ne",  "slt", "sle", "sgt",
                                                     "sge", "ult", "ule", "ugt", "uge"};

}  // namespace

int widthOf(v1::DataType type) { return type == v1::DATA_TYPE_BOOL ? 1 : static_cast<int>(8 * elementBytes(type)); }

bool sameInArithmetic(v1::DataType left, v1::DataType right) {
  return left == right || (!isFloatingPoint(left) && !isFloatingPoint(right) && widthOf(left) == widthOf(right));
}

int predicateOf(std::string_view name) {
  const size_t point = name.find('.');
  if (point == std::string_view::npos) return -1;
  const std::string_view operation = name.substr(0, point), wanted = name.substr(point + 1);
  const std::span<const std::string_view> known =
      operation == "cmpf" ? std::span<const std::string_view>(kReal) : std::span<const std::string_view>(kWhole);
  const auto found = std::ranges::find(known, wanted);
  return found == known.end() ? -1 : static_cast<int>(found - known.begin());
}

const ScalarOperation* scalarOperation(std::string_view name) {
  const std::string_view plain = name.substr(0, name.find('.'));
  for (const ScalarOperation& each : kOperations) {
    if (each.name != plain) continue;
    const bool compares = each.signature == Signature::kCompareReal || each.signature == Signature::kCompareWhole;
    if (compares ? predicateOf(name) < 0 : plain.size() != name.size()) return nullptr;
    return &each;
  }
  return nullptr;
}

}  // namespace tessera::compiler::simulator
