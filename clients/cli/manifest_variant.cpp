#include "clients/cli/manifest_variant.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cli/output.h"
#include "proto/messages/failure.h"

namespace tessera::client {
namespace {

bool fits(const v1::Manifest::Variant& variant, const v1::Specialization& choice) {
  for (const v1::DimensionBinding& wanted : choice.dimensions()) {
    const auto bound = std::find_if(variant.dimensions().begin(), variant.dimensions().end(),
                                    [&](const auto& each) { return each.name() == wanted.name(); });
    if (bound == variant.dimensions().end()) return false;
    // A negative size -n is a range: the variant accepts all sizes up to n.
    if (bound->size() < 0 ? wanted.size() > -bound->size() : bound->size() != wanted.size()) return false;
  }
  for (const v1::InputShape& wanted : choice.input_shapes()) {
    const auto input = std::find_if(variant.inputs().begin(), variant.inputs().end(),
                                    [&](const auto& each) { return each.name() == wanted.name(); });
    if (input == variant.inputs().end() ||
        !std::equal(input->shape().begin(), input->shape().end(), wanted.shape().begin(), wanted.shape().end())) {
      return false;
    }
  }
  return true;
}

// The product of the capacities of all range dimensions; 0 without ranges.
double capacityOf(const v1::Manifest::Variant& variant) {
  double room = 0;
  for (const v1::DimensionBinding& dimension : variant.dimensions()) {
    if (dimension.size() < 0) room = std::max(room, 1.0) * -static_cast<double>(dimension.size());
  }
  return room;
}

}  // namespace

absl::StatusOr<const v1::Manifest::Variant*> chosenVariant(const v1::Manifest& manifest,
                                                           const v1::Specialization& choice) {
  std::vector<const v1::Manifest::Variant*> chosen;
  std::string there;
  for (const v1::Manifest::Variant& variant : manifest.variants()) {
    if (fits(variant, choice)) chosen.push_back(&variant);
    for (const auto& input : variant.inputs()) {
      absl::StrAppend(&there, there.empty() ? "" : ", ", input.name(), ": ", typeText(input));
    }
  }
  // Among variants for a range, choose the smallest that is large enough.
  if (chosen.size() > 1 &&
      std::all_of(chosen.begin(), chosen.end(), [](const auto* each) { return capacityOf(*each) > 0; })) {
    chosen = {*std::min_element(chosen.begin(), chosen.end(),
                                [](const auto* a, const auto* b) { return capacityOf(*a) < capacityOf(*b); })};
  }
  if (chosen.size() != 1) {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INVALID_INPUT);
    failure.set_message(absl::StrCat(chosen.empty() ? "no variant of the artifact fits"
                                                    : absl::StrCat(chosen.size(), " variants of the artifact fit"),
                                     " --dim and --shape"));
    failure.set_accepted(manifest.variants_size() == 0 ? "neither: the artifact has one variant" : there);
    return failureStatus(failure);
  }
  return chosen[0];
}

}  // namespace tessera::client
