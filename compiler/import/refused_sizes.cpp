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

}  // namespace

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
