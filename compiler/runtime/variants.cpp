#include "compiler/runtime/variants.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace tessera::compiler {
namespace {

constexpr size_t kListedBytes = 700;  // of the 1023 bytes that tessera_last_error() can hold

std::string shapeText(const int64_t* extents, int32_t rank) {
  if (rank == 0) return "scalar";
  std::string text;
  for (int32_t d = 0; d < rank; ++d) text += (d ? "x" : "") + std::to_string(extents[d]);
  return text;
}

/// The size of each range according to the inputs so far; a missing entry is unknown.
using Counts = std::map<int32_t, int64_t>;

bool shapeFits(const tessera_shape& shape, const tessera_module_tensor& tensor, Counts& counts) {
  if (shape.rank < 0) return true;
  if (shape.rank != tensor.rank) return false;
  for (int32_t d = 0; d < shape.rank; ++d) {
    const int64_t extent = shape.extents[d];
    const int32_t range = tensor.ranges ? tensor.ranges[d] : -1;
    if (range < 0) {
      if (extent != tensor.shape[d]) return false;
      continue;
    }
    if (extent > tensor.shape[d] || extent < 0 || counts.try_emplace(range, extent).first->second != extent)
      return false;
  }
  return true;
}

const tessera_module_dimension* findDimension(const tessera_module_variant& variant, const char* name) {
  const auto* end = variant.dimensions + variant.num_dimensions;
  const auto* found =
      std::find_if(variant.dimensions, end, [&](const auto& each) { return std::strcmp(each.name, name) == 0; });
  return found == end ? nullptr : found;
}

bool fits(const tessera_module_variant& variant, const VariantQuery& query) {
  Counts counts;
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    if (!shapeFits(query.inputs[i], variant.inputs[i], counts)) return false;
  }
  return std::all_of(query.dimensions.begin(), query.dimensions.end(), [&](const tessera_dimension& wanted) {
    const tessera_module_dimension* found = findDimension(variant, wanted.name);
    if (!found) return false;
    if (found->size >= 0) return found->size == wanted.size;
    const int64_t least = found->size == -1 ? 1 : 0;  // a range up to 1 has exactly that size
    if (wanted.size < least || wanted.size > -found->size) return false;
    const auto count = counts.find(static_cast<int32_t>(found - variant.dimensions));
    return count == counts.end() || count->second == wanted.size;
  });
}

/// The product of the greatest sizes of a variant's ranges.
double capacityOf(const tessera_module_variant& variant) {
  double room = 1;
  for (int32_t d = 0; d < variant.num_dimensions; ++d) {
    if (variant.dimensions[d].size < 0) room *= -static_cast<double>(variant.dimensions[d].size);
  }
  return room;
}

/// Whether the variants have ranges and differ in the ranges' sizes only.
bool sameButRanges(const tessera_module_variant& a, const tessera_module_variant& b) {
  if (a.num_dimensions != b.num_dimensions) return false;
  if (std::none_of(a.dimensions, a.dimensions + a.num_dimensions, [](const auto& each) { return each.size < 0; }))
    return false;
  return std::equal(a.dimensions, a.dimensions + a.num_dimensions, b.dimensions, [](const auto& x, const auto& y) {
    return std::strcmp(x.name, y.name) == 0 && (x.size == y.size || (x.size < 0 && y.size < 0));
  });
}

std::string describe(const VariantQuery& query, const tessera_module& module) {
  std::string text;
  for (const tessera_dimension& dimension : query.dimensions) {
    text += (text.empty() ? "" : ", ") + std::string(dimension.name) + "=" + std::to_string(dimension.size);
  }
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    if (query.inputs[i].rank < 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(module.variants[0].inputs[i].name) + "=" +
            shapeText(query.inputs[i].extents, query.inputs[i].rank);
  }
  return text;
}

std::string shapesOf(const tessera_module& module, size_t variant) {
  std::string text;
  for (int32_t i = 0; i < module.num_inputs; ++i) {
    const tessera_module_tensor& input = module.variants[variant].inputs[i];
    text += (i ? ", " : "") + std::string(input.name) + "=" + shapeText(input.shape, input.rank);
  }
  return text;
}

/// All variants with their dimensions and shapes, truncated to the length of an error text.
std::string listed(const tessera_module& module) {
  std::string text;
  for (size_t v = 0; v < variantsOf(module).size(); ++v) {
    std::string one = shapesOf(module, v);
    if (module.variants[v].num_dimensions > 0) one = describeVariant(module, v) + " (" + one + ")";
    if (text.size() + one.size() > kListedBytes) {
      return text + (v ? "; " : "") + "and " + std::to_string(variantsOf(module).size() - v) + " more";
    }
    text += (v ? "; " : "") + one;
  }
  return text;
}

}  // namespace

std::span<const tessera_module_variant> variantsOf(const tessera_module& module) {
  return {module.variants, static_cast<size_t>(module.num_variants)};
}

size_t firstCount(const tessera_module& module, const tessera_module_variant& variant) {
  const auto ranges = std::count_if(variant.dimensions, variant.dimensions + variant.num_dimensions,
                                    [](const tessera_module_dimension& dimension) { return dimension.size < 0; });
  return static_cast<size_t>(module.num_inputs - ranges);  // checkModule() guarantees that they exist
}

std::string describeVariant(const tessera_module& module, size_t variant) {
  const tessera_module_variant& tables = module.variants[variant];
  if (tables.num_dimensions == 0) return shapesOf(module, variant);
  std::string text;
  for (int32_t d = 0; d < tables.num_dimensions; ++d) {
    const int64_t size = tables.dimensions[d].size;
    text += (d ? " " : "") + std::string(tables.dimensions[d].name) + (size < 0 ? "<=" : "=") +
            std::to_string(size < 0 ? -size : size);
  }
  return text;
}

RuntimeStatus findVariant(const tessera_module& module, const VariantQuery& query, size_t* variant) {
  const auto inputs = static_cast<size_t>(module.num_inputs);
  if (!query.inputs.empty() && query.inputs.size() != inputs) {
    return runtimeError(TESSERA_INVALID_ARGUMENT, "the model has %zu inputs, %zu shapes were given", inputs,
                        query.inputs.size());
  }
  const std::string asked = describe(query, module);
  size_t found = 0, count = 0;
  for (size_t v = 0; v < variantsOf(module).size(); ++v) {
    if (!fits(module.variants[v], query)) continue;
    if (count > 0 && !asked.empty() && sameButRanges(module.variants[v], module.variants[found])) {
      // Both variants are large enough for the sizes: keep the smaller one.
      if (capacityOf(module.variants[v]) < capacityOf(module.variants[found])) found = v;
      continue;
    }
    if (count++ == 0) found = v;
  }
  if (count == 1) {
    *variant = found;
    return {};
  }
  if (count == 0) {
    return runtimeError(TESSERA_INVALID_ARGUMENT, "the artifact has no variant for %.200s; there is %s", asked.c_str(),
                        listed(module).c_str());
  }
  if (asked.empty()) {
    return runtimeError(TESSERA_INVALID_ARGUMENT, "the artifact has %zu variants, and no shape says which to take: %s",
                        count, listed(module).c_str());
  }
  return runtimeError(TESSERA_INVALID_ARGUMENT, "%zu variants of the artifact fit %.200s; there is %s", count,
                      asked.c_str(), listed(module).c_str());
}

}  // namespace tessera::compiler
