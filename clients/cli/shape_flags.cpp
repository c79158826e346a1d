#include "clients/cli/shape_flags.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/runtime/tessera.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

constexpr int64_t kMaxVariants = TESSERA_MAX_VARIANTS;
constexpr int kMaxRangeVariants = 16;  // limit of variants for several ranges
constexpr int64_t kLargestRange = int64_t{1} << 40;

absl::Status badDimension(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--dim ", text, ": ", why,
                   "; write NAME=SIZE, NAME=SIZE,SIZE, NAME=FROM..TO:STEP, e.g. batch=1,4,8, a range: NAME=FROM..TO, "
                   "NAME=..TO, or what it follows from: NAME=OTHER + 1"));
}

// Parses "8", "1..8" or "128..512:128". False for other texts.
bool addSizes(absl::string_view text, std::vector<int64_t>& sizes) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, "..");
  int64_t first = 0, last = 0, step = 1;
  if (ends.size() > 2 || !absl::SimpleAtoi(ends[0], &first) || first < 0) return false;
  if (ends.size() == 1) {
    sizes.push_back(first);
    return true;
  }
  const std::vector<absl::string_view> tail = absl::StrSplit(ends[1], ':');
  if (tail.size() > 2 || !absl::SimpleAtoi(tail[0], &last) || last < first) return false;
  if (tail.size() == 2 && (!absl::SimpleAtoi(tail[1], &step) || step < 1)) return false;
  const int64_t steps = (last - first) / step;
  if (steps >= kMaxVariants) return false;
  for (int64_t i = 0; i <= steps; ++i) sizes.push_back(first + i * step);
  return true;
}

// Sizes of "1..64": both ends, and the repeated doubles of the first end between them. If the first end is a multiple
// of a window, as in 7..224, all of these sizes are. "0..64" needs no variant for 0: the variant for 2 runs it. Empty
// if the text is not a range.
std::vector<int64_t> sizesOfRange(absl::string_view text) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, "..");
  int64_t first = 0, last = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first) || !absl::SimpleAtoi(ends[1], &last)) return {};
  if (first < 0 || last <= std::max<int64_t>(first, 1) || last > kLargestRange) return {};
  std::vector<int64_t> sizes;
  for (int64_t size = std::max<int64_t>(first, 1); size < last; size *= 2) sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

// Sizes of "..64" or "..8,..64": exactly those. Empty if the text has another form.
std::vector<int64_t> chosenSizes(absl::string_view text) {
  std::vector<int64_t> sizes;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t size = 0;
    if (!absl::ConsumePrefix(&part, "..") || !absl::SimpleAtoi(part, &size) || size < 1 || size > kLargestRange)
      return {};
    sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// Whether the text is arithmetic that contains a name, such as "past + tokens", but not "abc" or "-1".
bool isFormula(absl::string_view text) {
  return absl::StrContains(text, "..") ? false
                                       : std::any_of(text.begin(), text.end(), absl::ascii_isalpha) &&
                                             text.find_first_of("+-*/(") != absl::string_view::npos;
}

// Groups shapes by input, in the order in which inputs are first named.
absl::StatusOr<std::vector<std::vector<v1::InputShape>>> groupShapes(const std::vector<std::string>& flags) {
  std::vector<std::vector<v1::InputShape>> groups;
  for (const std::string& text : flags) {
    TESSERA_ASSIGN_OR_RETURN(auto shape, parseShape(text));
    const auto known = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& group) { return group.front().name() == shape.name(); });
    if (known == groups.end()) {
      groups.push_back({shape});
    } else {
      known->push_back(shape);
    }
  }
  return groups;
}

// Limits the variants of several ranges to kMaxRangeVariants. Keeps of each range every second, third, ... size from
// the greatest down, and the least, with the smallest stride that suffices. If two sizes per range are still too many,
// the last ranges keep only their greatest size.
void thinRanges(std::vector<DimensionSizes>& dimensions) {
  // A single range has at most a few dozen sizes (doubles); only products of several need a limit.
  if (std::count_if(dimensions.begin(), dimensions.end(), [](const auto& each) { return each.range; }) < 2) return;
  // Each stride selects from the complete sizes, not from an earlier selection.
  const std::vector<DimensionSizes> all = dimensions;
  const auto product = [&] {
    double variants = 1;
    for (const DimensionSizes& each : dimensions) variants *= each.range ? static_cast<double>(each.sizes.size()) : 1;
    return variants;
  };
  const auto isThin = [](const DimensionSizes& each) { return !each.range || each.listed; };
  const auto isLong = [&](const DimensionSizes& each) { return !isThin(each) && each.sizes.size() > 2; };
  for (size_t apart = 2; product() > kMaxRangeVariants && std::any_of(dimensions.begin(), dimensions.end(), isLong);
       ++apart) {
    for (size_t d = 0; d < all.size(); ++d) {
      if (isThin(all[d])) continue;
      const std::vector<int64_t>& sizes = all[d].sizes;
      dimensions[d].sizes.clear();
      for (size_t i = 0; i < sizes.size(); ++i)
        if (i == 0 || (sizes.size() - 1 - i) % apart == 0) dimensions[d].sizes.push_back(sizes[i]);
    }
  }
  // The greatest size alone accepts every smaller one, padded.
  for (size_t d = dimensions.size(); d-- > 0 && product() > kMaxRangeVariants;) {
    if (!isThin(dimensions[d])) dimensions[d].sizes = {dimensions[d].sizes.back()};
  }
}

absl::StatusOr<std::vector<DimensionSizes>> parseDimensions(const std::vector<std::string>& flags) {
  std::vector<DimensionSizes> parsed;
  for (const std::string& text : flags) {
    TESSERA_ASSIGN_OR_RETURN(auto one, parseDimension(text));
    if (std::any_of(parsed.begin(), parsed.end(), [&](const auto& known) { return known.name == one.name; })) {
      return badDimension(text, absl::StrCat("'", one.name, "' is bound before; several sizes go into one flag"));
    }
    parsed.push_back(std::move(one));
  }
  thinRanges(parsed);
  return parsed;
}

// Combines every variant so far with every one of `values`, added by `add`.
template <typename Value, typename Add>
void multiply(std::vector<v1::Specialization>& variants, const std::vector<Value>& values, Add add) {
  std::vector<v1::Specialization> product;
  for (const v1::Specialization& variant : variants) {
    for (const Value& value : values) add(product.emplace_back(variant), value);
  }
  variants = std::move(product);
}

}  // namespace

absl::StatusOr<v1::InputShape> parseShape(const std::string& text) {
  // The name may itself contain '=' or 'x'; the extents may not.
  const size_t equals = text.rfind('=');
  v1::InputShape shape;
  bool good = equals != std::string::npos && equals > 0;
  if (good) {
    shape.set_name(text.substr(0, equals));
    std::vector<std::string> extents;  // none of a scalar: "x="
    if (equals + 1 < text.size()) extents = absl::StrSplit(text.substr(equals + 1), 'x');
    for (const std::string& part : extents) {
      int64_t extent = 0;
      good &= absl::SimpleAtoi(part, &extent) && extent >= 0;
      shape.add_shape(extent);
    }
  }
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shape ", text, ": write NAME=EXTENTxEXTENT..., e.g. ", "x=1x3x224x224"));
  }
  return shape;
}

absl::StatusOr<DimensionSizes> parseDimension(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return badDimension(text, "there is no name and size");
  // Size 0 marks a derived dimension: the whole text is sent as its name.
  if (isFormula(absl::string_view(text).substr(equals + 1))) return DimensionSizes{.name = text, .sizes = {0}};
  DimensionSizes parsed{.name = text.substr(0, equals), .sizes = sizesOfRange(text.substr(equals + 1))};
  if (parsed.sizes.empty()) {
    parsed.sizes = chosenSizes(text.substr(equals + 1));
    parsed.listed = !parsed.sizes.empty();
  }
  parsed.range = !parsed.sizes.empty();
  for (const absl::string_view part : absl::StrSplit(text.substr(equals + 1), ',')) {
    if (!parsed.range && !addSizes(part, parsed.sizes)) {
      return badDimension(text, absl::StrCat("'", part, "' is no size and no range of at most ", kMaxVariants));
    }
  }
  std::vector<int64_t> sorted = parsed.sizes;
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end()) return badDimension(text, absl::StrCat(*twin, " is there twice"));
  return parsed;
}

void ShapeFlags::addTo(CLI::App* command) {
  command->add_option("--shape", shapes,
                      "shape of an input: NAME=1x3x224x224; repeat for each input, or for another variant");
  command
      ->add_option("--dim", dimensions,
                   "size of a symbolic dimension in all inputs: batch=1; several sizes (batch=1,4,8; seq=128..512:128) "
                   "make a variant for each combination; batch=1..64 is a range with variants for 1, 2, 4, ..., 64: a "
                   "run of another size uses the next larger variant (past=0..64 includes 0); batch=..64 is a range "
                   "with one variant, batch=..8,..64 with two; several ranges are combined sparsely; total='past + "
                   "tokens' derives a dimension from others")
      ->allow_extra_args(false);
}

void ShapeFlags::addChoiceTo(CLI::App* command) {
  command->add_option("--shape", shapes, "select the variant with this input shape: NAME=1x3x224x224")
      ->allow_extra_args(false);
  command->add_option("--dim", dimensions, "select the variant with this dimension: batch=4")->allow_extra_args(false);
}

absl::Status ShapeFlags::fill(v1::CompileSpec& spec) const {
  TESSERA_ASSIGN_OR_RETURN(auto groups, groupShapes(shapes));
  TESSERA_ASSIGN_OR_RETURN(auto named, parseDimensions(dimensions));

  std::vector<v1::Specialization> variants(1);
  std::vector<std::string> factors;  // for the error message
  for (const DimensionSizes& dimension : named) {
    if (dimension.sizes.size() == 1) {
      v1::DimensionBinding& binding = *spec.add_dimensions();
      binding.set_name(dimension.name);
      binding.set_size(dimension.range ? -dimension.sizes[0] : dimension.sizes[0]);
      continue;
    }
    factors.push_back(absl::StrCat(dimension.name, ": ", dimension.sizes.size()));
    // The error below counts all of them; do not build them.
    if (variants.size() * dimension.sizes.size() > kMaxVariants) break;
    multiply(variants, dimension.sizes, [&](v1::Specialization& variant, int64_t size) {
      v1::DimensionBinding& binding = *variant.add_dimensions();
      binding.set_name(dimension.name);
      // The protocol encodes "up to size" as a negative size.
      binding.set_size(dimension.range ? -size : size);
    });
  }
  size_t repeated = 1;
  for (const auto& group : groups) {
    if (group.size() == 1) {
      *spec.add_input_shapes() = group[0];
      continue;
    }
    if (repeated != 1 && group.size() != repeated) {
      return absl::InvalidArgumentError(
          absl::StrCat("--shape: input '", group[0].name(), "' has ", group.size(), " shapes, an input before has ",
                       repeated, "; the i-th shapes of all inputs are one variant, so give as many for each"));
    }
    repeated = group.size();
  }
  if (repeated > 1) factors.push_back(absl::StrCat("shapes: ", repeated));
  size_t product = 1;
  for (const DimensionSizes& dimension : named) product = std::min<size_t>(product * dimension.sizes.size(), 1 << 20);
  product *= repeated;
  if (product > kMaxVariants) {
    return absl::InvalidArgumentError(absl::StrCat("these make ", product, " variants (", absl::StrJoin(factors, ", "),
                                                   "); an artifact holds at most ", kMaxVariants,
                                                   ", compile the others into another"));
  }
  if (product == 1) return absl::OkStatus();
  if (repeated > 1) {
    std::vector<size_t> positions(repeated);
    for (size_t i = 0; i < repeated; ++i) positions[i] = i;
    multiply(variants, positions, [&](v1::Specialization& variant, size_t position) {
      for (const auto& group : groups) {
        if (group.size() > 1) *variant.add_input_shapes() = group[position];
      }
    });
  }
  spec.mutable_specializations()->Assign(variants.begin(), variants.end());
  return absl::OkStatus();
}

std::string ShapeFlags::rangesText() const {
  auto named = parseDimensions(dimensions);
  if (!named.ok()) return "";
  std::vector<std::string> sizes;
  size_t product = 1;
  for (const DimensionSizes& dimension : *named) {
    if (!dimension.range) continue;
    sizes.push_back(absl::StrCat(dimension.name, "=", absl::StrJoin(dimension.sizes, ",")));
    product *= dimension.sizes.size();
  }
  if (sizes.size() < 2) return "";
  return absl::StrCat("combined ranges: ", absl::StrJoin(sizes, " "), ", ", product,
                      " combinations; other sizes run in the smallest variant that is large enough");
}

absl::StatusOr<v1::Specialization> ShapeFlags::choice() const {
  v1::CompileSpec spec;
  TESSERA_RETURN_IF_ERROR(fill(spec));
  if (spec.specializations_size() > 0) {
    return absl::InvalidArgumentError(
        "one variant runs at a time: give --dim one size and --shape once for each input");
  }
  v1::Specialization choice;
  *choice.mutable_dimensions() = spec.dimensions();
  *choice.mutable_input_shapes() = spec.input_shapes();
  return choice;
}

}  // namespace tessera::client
