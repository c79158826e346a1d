#include "compiler/backends/hls/search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "proto/support/status_macros.h"

namespace tessera::compiler::hls {
namespace {

constexpr size_t kMostUnrolls = 40;       // unroll factors whose tiles are enumerated
constexpr int64_t kMostFactor = 256;      // of one loop
constexpr size_t kMostUnrolledLoops = 3;  // more dimensions need multiplexers between all memories
constexpr int64_t kWindow = 11;           // loops up to this length are not tiled

std::vector<int64_t> factorsOf(int64_t extent) {
  std::vector<int64_t> factors;
  for (int64_t factor = 1; factor <= std::min(extent, kMostFactor); ++factor)
    if ((factor & (factor - 1)) == 0 || (factor <= 64 && extent % factor == 0)) factors.push_back(factor);
  return factors;
}

struct Unroll {
  std::vector<int64_t> factors;
  double points = 0;  ///< pipelined points of the whole nest: a bound of its cycles
  size_t loops = 0;
  int64_t widest = 1;
};

class Search {
 public:
  Search(const Form& form, const Device& device, const Resources& limits, SearchCount& count)
      : form_(form), device_(device), limits_(limits), count_(count) {}

  absl::StatusOr<Design> run() {
    TESSERA_ASSIGN_OR_RETURN(const Resources element, elementOf(form_, device_));
    const std::vector<int64_t> ones(form_.loops(), 1);
    if (!form_.direct.empty()) {
      ++count_.tried;
      absl::StatusOr<Design> design = designOf(form_, {form_.nest->extents(), ones}, device_, limits_);
      count_.fitting += design.ok() ? 1 : 0;
      return design;
    }
    most_elements_ = elementsWithin(element);
    std::vector<int64_t> factors = ones;
    enumerateUnrolls(0, factors, 1, 0);
    std::ranges::sort(unrolls_, {}, [](const Unroll& each) {
      return std::tuple(each.points, each.loops, each.widest, each.factors);
    });
    for (size_t u = 0; u < std::min(unrolls_.size(), kMostUnrolls); ++u) {
      if (best_ && unrolls_[u].points >= best_->cycles) break;
      enumerateTiles(unrolls_[u].factors);
    }
    // Memories of large factors may not fit where small ones do.
    if (!best_) enumerateTiles(ones);
    if (best_) return *std::move(best_);
    return refusal_;
  }

 private:
  /// The most processing elements that fit, at least one.
  int64_t elementsWithin(const Resources& element) const {
    int64_t most = int64_t{1} << 16;
    const auto bound = [&](int64_t each, int64_t all) {
      if (each > 0) most = std::min(most, all / each);
    };
    bound(element.dsp, limits_.dsp);
    bound(element.lut, limits_.lut);
    bound(element.ff, limits_.ff);
    return std::max<int64_t>(1, most);
  }

  void enumerateUnrolls(size_t loop, std::vector<int64_t>& factors, int64_t elements, size_t unrolled) {
    if (loop == form_.loops()) {
      Unroll unroll{.factors = factors, .points = 1, .loops = unrolled};
      for (size_t l = 0; l < factors.size(); ++l) {
        unroll.points *= std::ceil(static_cast<double>(form_.extent(l)) / static_cast<double>(factors[l]));
        unroll.widest = std::max(unroll.widest, factors[l]);
      }
      unrolls_.push_back(std::move(unroll));
      return;
    }
    const bool fixed = form_.whole[loop] || (form_.reduction[loop] && !form_.combines());
    for (int64_t factor : fixed ? std::vector<int64_t>{1} : factorsOf(form_.extent(loop))) {
      if (elements * factor > most_elements_) break;
      if (factor > 1 && unrolled == kMostUnrolledLoops) break;
      factors[loop] = factor;
      enumerateUnrolls(loop + 1, factors, elements * factor, unrolled + (factor > 1 ? 1 : 0));
    }
    factors[loop] = 1;
  }

  void enumerateTiles(const std::vector<int64_t>& unroll) {
    std::vector<std::vector<int64_t>> sizes;
    for (size_t loop = 0; loop < form_.loops(); ++loop) {
      std::vector<int64_t>& each = sizes.emplace_back();
      const int64_t extent = form_.extent(loop);
      if (!form_.whole[loop] && extent > kWindow)
        for (int64_t tile = std::max<int64_t>(unroll[loop], extent > 256 ? 4 : 1); tile < extent; tile *= 2)
          each.push_back(tile);
      // Few sizes of each loop, so that all combinations can be tried.
      constexpr size_t kMostSizes = 4;
      while (each.size() > kMostSizes) each.erase(each.begin() + (each.size() % 2 == 0 ? 1 : 0));
      each.push_back(extent);
    }
    Tiling tiling{.tile = std::vector<int64_t>(form_.loops()), .unroll = unroll};
    for (size_t loop = 0; loop < form_.loops(); ++loop) tiling.tile[loop] = sizes[loop].front();
    enumerateTiles(0, sizes, tiling);
  }

  /// False if the smallest tiles of the remaining loops do not fit.
  bool enumerateTiles(size_t loop, const std::vector<std::vector<int64_t>>& sizes, Tiling& tiling) {
    if (loop == form_.loops()) return evaluate(tiling);
    bool fits = false;
    for (int64_t size : sizes[loop]) {
      tiling.tile[loop] = size;
      // Larger tiles of this loop need more memory still.
      const bool these = enumerateTiles(loop + 1, sizes, tiling);
      fits |= these;
      if (!these) break;
    }
    tiling.tile[loop] = sizes[loop].front();
    return fits;
  }

  bool evaluate(const Tiling& tiling) {
    ++count_.tried;
    absl::StatusOr<Design> design = designOf(form_, tiling, device_, limits_);
    if (!design.ok()) {
      refusal_ = design.status();
      return false;
    }
    ++count_.fitting;
    if (!best_ || design->cycles < best_->cycles) best_ = *std::move(design);
    return true;
  }

  const Form& form_;
  const Device& device_;
  const Resources& limits_;
  SearchCount& count_;
  int64_t most_elements_ = 1;
  std::vector<Unroll> unrolls_;
  std::optional<Design> best_;
  absl::Status refusal_;
};

}  // namespace

absl::StatusOr<Design> searchDesign(const Form& form, const Device& device, const Resources& limits,
                                    SearchCount* count) {
  SearchCount own;
  return Search(form, device, limits, count ? *count : own).run();
}

}  // namespace tessera::compiler::hls
