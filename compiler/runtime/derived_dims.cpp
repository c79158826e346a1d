#include "compiler/runtime/derived_dims.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::compiler {

DerivedDims::DerivedDims(const tessera_module_variant& variant) : variant_(variant) {
  std::vector<std::string_view> names;
  for (int32_t d = 0; d < variant.num_dimensions; ++d) names.emplace_back(variant.dimensions[d].name);
  for (int32_t d = 0; d < variant.num_dimensions; ++d) {
    if (variant.dimensions[d].size >= 0) continue;
    if (auto formula = DimensionFormula::parse(names[static_cast<size_t>(d)], names))
      formulas_.push_back({d, *std::move(formula)});
  }
}

const DerivedDims::Derived* DerivedDims::find(int32_t dimension) const {
  const auto found = std::find_if(formulas_.begin(), formulas_.end(),
                                  [&](const Derived& each) { return each.dimension == dimension; });
  return found == formulas_.end() ? nullptr : &*found;
}

RuntimeStatus DerivedDims::check(std::span<const int64_t> sizes, std::span<const tessera_module_tensor> inputs) const {
  for (const Derived& each : formulas_) {
    const std::optional<int64_t> size = each.formula.value(sizes);
    if (!size) return noSize(each, sizes);
    if (*size != sizes[static_cast<size_t>(each.dimension)]) return wrongSize(each, sizes, inputs);
  }
  return {};
}

RuntimeStatus DerivedDims::complete(std::span<int64_t> sizes) const {
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t size = variant_.dimensions[d].size;
    if (sizes[d] < 0 && !has(static_cast<int32_t>(d))) sizes[d] = size < 0 ? -size : size;
  }
  for (const Derived& each : formulas_) {
    int64_t& own = sizes[static_cast<size_t>(each.dimension)];
    if (own >= 0) continue;
    const std::optional<int64_t> size = each.formula.value(sizes);
    if (!size) return noSize(each, sizes);
    own = *size;
  }
  return {};
}

std::string DerivedDims::causes(const Derived& derived, std::span<const int64_t> sizes) const {
  std::string text;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!derived.formula.reads(d)) continue;
    text += (text.empty() ? "" : ", ") + std::string(variant_.dimensions[d].name) + "=" + std::to_string(sizes[d]);
  }
  return text;
}

RuntimeStatus DerivedDims::noSize(const Derived& derived, std::span<const int64_t> sizes) const {
  return runtimeError(TESSERA_INVALID_ARGUMENT, "dimension '%.100s' has no size for %.300s",
                      variant_.dimensions[derived.dimension].name, causes(derived, sizes).c_str());
}

RuntimeStatus DerivedDims::wrongSize(const Derived& derived, std::span<const int64_t> sizes,
                                     std::span<const tessera_module_tensor> inputs) const {
  const auto follows = [&](const tessera_module_tensor& input) {
    return input.ranges &&
           std::find(input.ranges, input.ranges + input.rank, derived.dimension) != input.ranges + input.rank;
  };
  const auto input = std::find_if(inputs.begin(), inputs.end(), follows);
  const char* dimension = variant_.dimensions[derived.dimension].name;
  return runtimeError(TESSERA_INVALID_ARGUMENT, "input '%.100s' has %lld along '%.100s', which is %lld for %.300s",
                      input == inputs.end() ? dimension : input->name,
                      static_cast<long long>(sizes[static_cast<size_t>(derived.dimension)]), dimension,
                      static_cast<long long>(*derived.formula.value(sizes)), causes(derived, sizes).c_str());
}

}  // namespace tessera::compiler
