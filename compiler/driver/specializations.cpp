#include "compiler/driver/specializations.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/runtime/tessera.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::Status invalid(const std::string& attribute, const std::string& message, const std::string& found,
                     const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(message);
  failure.set_attribute(attribute);
  failure.set_found(found);
  failure.set_accepted(accepted);
  return failureStatus(failure);
}

/// Adds the bindings of a CompileSpec or of one Specialization.
template <typename Message>
absl::Status bind(const Message& message, Bindings& bindings) {
  for (const v1::DimensionBinding& dimension : message.dimensions()) {
    auto [known, fresh] = bindings.dimensions.emplace(dimension.name(), dimension.size());
    if (fresh) continue;
    return invalid(dimension.name(), absl::StrCat("dimension '", dimension.name(), "' is bound twice"),
                   absl::StrCat(known->second, " and ", dimension.size()), "one size in each variant");
  }
  for (const v1::InputShape& shape : message.input_shapes()) {
    std::vector<int64_t> extents(shape.shape().begin(), shape.shape().end());
    auto [known, fresh] = bindings.input_shapes.emplace(shape.name(), extents);
    if (fresh) continue;
    return invalid(shape.name(), absl::StrCat("input '", shape.name(), "' is given two shapes"),
                   absl::StrCat(absl::StrJoin(known->second, "x"), " and ", absl::StrJoin(extents, "x")),
                   "one shape in each variant");
  }
  return absl::OkStatus();
}

}  // namespace

std::string Bindings::text() const {
  std::string text = absl::StrJoin(dimensions, " ", [](std::string* out, const auto& dimension) {
    const auto& [name, size] = dimension;
    absl::StrAppend(out, name);
    if (size == 0 && absl::StrContains(name, '=')) return;  // its formula
    absl::StrAppend(out, size < 0 ? "<=" : "=", size < 0 ? -size : size);
  });
  for (const auto& [name, shape] : input_shapes) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", absl::StrJoin(shape, "x"));
  }
  return text;
}

absl::StatusOr<std::vector<Bindings>> variantsOf(const v1::CompileSpec& spec) {
  Bindings shared;
  TESSERA_RETURN_IF_ERROR(bind(spec, shared));
  if (spec.specializations_size() > TESSERA_MAX_VARIANTS) {
    return invalid("specializations", "an artifact cannot hold so many variants",
                   absl::StrCat(spec.specializations_size()), absl::StrCat("at most ", TESSERA_MAX_VARIANTS));
  }
  std::vector<Bindings> variants;
  for (const v1::Specialization& specialization : spec.specializations()) {
    Bindings& bindings = variants.emplace_back(shared);
    TESSERA_RETURN_IF_ERROR(bind(specialization, bindings));
  }
  // Without specializations the shared bindings are the only variant.
  if (variants.empty()) variants.push_back(std::move(shared));
  // A range counts with its bound.
  const auto sizes = [](const Bindings& bindings) {
    std::vector<std::pair<std::string, int64_t>> all(bindings.dimensions.begin(), bindings.dimensions.end());
    for (auto& [name, size] : all) size = std::abs(size);
    return all;
  };
  // Ascending sizes: a run takes the first variant that is large enough, so smaller ones come first.
  std::sort(variants.begin(), variants.end(), [&](const Bindings& a, const Bindings& b) {
    const auto of_a = sizes(a), of_b = sizes(b);
    return of_a != of_b ? of_a < of_b : a < b;
  });
  const auto twin = std::adjacent_find(variants.begin(), variants.end());
  if (twin == variants.end()) return variants;
  return invalid("specializations", "two variants bind the same", twin->text(), "different bindings for each variant");
}

std::map<std::string, int64_t> minSizes(const std::vector<Bindings>& variants, const Bindings& variant) {
  std::map<std::string, int64_t> least;
  for (const auto& [name, size] : variant.dimensions) {
    if (size >= 0) continue;
    // A range begins at 1 unless a smaller range of the same dimension covers the sizes below.
    int64_t& sizes = least.emplace(name, 1).first->second;
    for (const Bindings& other : variants) {
      const auto smaller = other.dimensions.find(name);
      if (smaller == other.dimensions.end() || smaller->second >= 0 || smaller->second <= size) continue;
      // Only a variant that differs in nothing else takes over these sizes.
      Bindings same = other;
      same.dimensions[name] = size;
      if (same == variant) sizes = std::max(sizes, 1 - smaller->second);
    }
  }
  return least;
}

}  // namespace tessera::compiler
