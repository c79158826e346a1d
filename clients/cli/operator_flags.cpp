#include "clients/cli/operator_flags.h"

#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/intrinsic/standard_operators.h"
#include "compiler/target/instruction_sets.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

using namespace compiler::intrinsic;  // NOLINT: the flags are this room's
using compiler::instructionsOf;

namespace {
constexpr int64_t kMaxElements = int64_t{1} << 40;  // per tensor, so that addresses fit
}  // namespace

CLI::Option* OperatorFlags::addTo(CLI::App* command, const std::string& what) {
  CLI::Option* op = command->add_option("--op", text, what + ", or an expression \"O[i, j] += A[i, k] * B[k, j]\"");
  command->add_option("--extents", extents, "sizes of the operator's loops in the order of their first use: 16x64x56")
      ->needs(op);
  return op;
}

absl::StatusOr<Nest> OperatorFlags::nest(bool mappable) const {
  std::vector<int64_t> sizes;
  for (const auto word : absl::StrSplit(extents, 'x', absl::SkipEmpty())) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(word, &extent) || extent < 1 || extent > 1 << 20) {
      return absl::InvalidArgumentError(
          absl::StrCat("--extents ", extents, ": accepted is 16x64x56, of 1 to ", 1 << 20));
    }
    sizes.push_back(extent);
  }
  const StandardOperator* standard = findStandardOperator(text);
  if (!standard && text.find('[') == std::string::npos) {
    return absl::NotFoundError(absl::StrCat(
        "there is no operator ", text, "; accepted: an expression such as \"O[i, j] += A[i, k] * B[k, j]\", or ",
        absl::StrJoin(standardOperators(), ", ", [](std::string* out, const StandardOperator& s) { *out += s.name; })));
  }
  auto nest = standard ? compiler::loopnest::parse(standard->name, standard->definition,
                                                   sizes.empty() ? standard->extents : sizes)
                       : compiler::loopnest::parse("operator", text, sizes);
  if (nest.ok() && mappable) TESSERA_RETURN_IF_ERROR(checkMappable(*nest));
  for (const Access& access : nest.ok() ? nest->accesses : std::vector<Access>()) {
    int64_t elements = 1;
    for (int64_t extent : shapeOf(*nest, access)) {
      if (extent < 0) return absl::InvalidArgumentError(absl::StrCat("a subscript of ", access.name, " goes below 0"));
      elements = compiler::loopnest::saturatedProduct(elements, extent);
    }
    if (elements <= kMaxElements) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(access.name, " has more than ", kMaxElements, " elements; give smaller --extents"));
  }
  return nest;
}

absl::StatusOr<v1::Intrinsic> instructionOf(const v1::Target& target, const std::string& name) {
  const std::vector<v1::Intrinsic> all = instructionsOf(target);
  const auto subscripts = [](const v1::Intrinsic& intrinsic) {
    int count = 0;
    for (const auto& operand : intrinsic.operands()) count += operand.subscripts_size();
    return count;
  };
  const auto rank = [&](const v1::Intrinsic& intrinsic) {
    const auto form = intrinsic.arithmetic().form();
    const bool sums = !intrinsic.has_arithmetic() || form == v1::Intrinsic::Arithmetic::MULTIPLY_ADD;
    return std::tuple(!sums, -intrinsic.iterations_size(), subscripts(intrinsic));
  };
  const v1::Intrinsic* chosen = nullptr;
  for (const v1::Intrinsic& intrinsic : all) {
    if (!name.empty() ? intrinsic.name() == name : !chosen || rank(intrinsic) < rank(*chosen)) chosen = &intrinsic;
  }
  if (chosen) return *chosen;
  return absl::NotFoundError(absl::StrCat(
      target.name(), name.empty()
                         ? " has no instructions"
                         : absl::StrCat(" has no instruction ", name, "; accepted: ",
                                        absl::StrJoin(all, ", ", [](std::string* out, const v1::Intrinsic& entry) {
                                          *out += entry.name();
                                        }))));
}

}  // namespace tessera::client
