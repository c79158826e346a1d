#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/import/empty_extents.h"
#include "compiler/ir/extent_functions.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kFirstLook = 256;  // Sizes to examine first: windows are mostly smaller, and their images grow with
                                     // the size.

class Finder {
 public:
  Finder(const ImportedModel& model, mlir::func::FuncOp main, int64_t upto) : series_(model, main, upto), upto_(upto) {}

  void add(const NonEmptyExtent& extent) {
    const std::optional<ExtentFunction> from = series_.of(extent.from), result = series_.of(extent.result);
    // Only extents that follow one and the same range can be stated as sizes of that range.
    if (!from || !result || result->dimension < 0 || from->dimension != result->dimension) return;
    if (from->at.size() != result->at.size()) return;
    const auto sizes = static_cast<int64_t>(from->at.size());
    const auto refuses = [&](int64_t n) {
      const auto at = static_cast<size_t>(n);
      return from->at[at] > 0 && result->at[at] == 0 && !refused_.contains({result->dimension, n});
    };
    // Joins neighbouring refused sizes to one entry.
    for (int64_t first = 0; first < sizes; ++first) {
      if (!refuses(first)) continue;
      int64_t last = first;
      while (last + 1 < sizes && refuses(last + 1)) ++last;
      add(extent, *from, first, last);
      first = last;
    }
  }

  /// Whether sizes beyond the examined ones may be refused as well.
  bool goesOn() const {
    return std::any_of(found_.begin(), found_.end(), [&](const v1::RefusedSizes& sizes) {
      return sizes.last() == upto_ && series_.most(sizes.dimension()) > upto_;
    });
  }
  std::vector<v1::RefusedSizes> found() && { return std::move(found_); }

 private:
  void add(const NonEmptyExtent& extent, const ExtentFunction& from, int64_t first, int64_t last) {
    const auto [least, most] = std::minmax_element(from.at.begin() + first, from.at.begin() + last + 1);
    v1::RefusedSizes& sizes = found_.emplace_back();
    sizes.set_dimension(from.dimension);
    sizes.set_first(first);
    sizes.set_last(last);
    sizes.set_reason(absl::StrCat(extent.node, ": ", extent.before, *least,
                                  *least == *most ? "" : absl::StrCat(" to ", *most), " long", extent.after));
    // A size is reported for the first node that refuses it.
    for (int64_t n = first; n <= last; ++n) refused_.insert({from.dimension, n});
  }

  ExtentFunctions series_;
  int64_t upto_;
  std::vector<v1::RefusedSizes> found_;
  std::set<std::pair<int, int64_t>> refused_;  // range, size
};

/// Returns the first position from which on all values are positive, past position 0; nothing if values before it are
/// positive as well, or if there is none.
std::optional<int64_t> positiveFrom(const std::vector<int64_t>& values) {
  const auto isPositive = [](int64_t value) { return value > 0; };
  const auto first = std::find_if(values.begin() + 1, values.end(), isPositive);
  if (first == values.end() || !std::all_of(first, values.end(), isPositive)) return std::nullopt;
  return first - values.begin();
}

}  // namespace

std::optional<LeastSize> leastSize(const ImportedModel& model, mlir::func::FuncOp main, const NonEmptyExtent& extent) {
  for (int64_t upto = kFirstLook; upto <= ExtentFunctions::kLongest; upto *= 2) {
    ExtentFunctions series(model, main, upto);
    const std::optional<ExtentFunction> from = series.of(extent.from), result = series.of(extent.result);
    if (!from || !result || result->dimension < 0 || from->dimension != result->dimension) return std::nullopt;
    if (from->at.size() != result->at.size() || from->at.empty()) return std::nullopt;
    const std::optional<int64_t> refused_from = positiveFrom(from->at), least = positiveFrom(result->at);
    if (refused_from && least) return LeastSize{result->dimension, *refused_from, *least};
    if (series.most(result->dimension) <= upto) break;
  }
  return std::nullopt;
}

std::vector<v1::RefusedSizes> refusedSizes(const ImportedModel& model, mlir::func::FuncOp main,
                                           const std::vector<NonEmptyExtent>& extents) {
  if (extents.empty()) return {};
  // Doubles the examined sizes until the last one is accepted, or all sizes have been examined.
  for (int64_t upto = kFirstLook;; upto *= 2) {
    Finder finder(model, main, upto);
    for (const NonEmptyExtent& extent : extents) finder.add(extent);
    if (!finder.goesOn() || upto * 2 > ExtentFunctions::kLongest) return std::move(finder).found();
  }
}

}  // namespace tessera::compiler
