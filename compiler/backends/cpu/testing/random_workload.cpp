#include "compiler/backends/cpu/testing/random_workload.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/testing/chain_text.h"
#include "compiler/backends/cpu/testing/tree_mutations.h"

namespace tessera::compiler::codegen::testing {
namespace {

using Dims = std::vector<int>;  // loops, in the order of a tensor's dimensions

class Writer {
 public:
  explicit Writer(unsigned seed) : random_(seed) {}

  RandomWorkload write() {
    static constexpr const char* kFamilies[] = {"contraction", "contraction", "window", "reduction",
                                                "elementwise", "elementwise", "rows"};
    workload_.family = kFamilies[random_() % std::size(kFamilies)];
    workload_.low = -1, workload_.high = 1;
    element_ = pick<std::string>({"f32", "f32", "f32", "f32", "f64", "f16", "bf16", "i32"});
    Tensor result;
    if (workload_.family == "contraction") {
      result = contraction();
    } else if (workload_.family == "window") {
      result = window();
    } else if (workload_.family == "reduction") {
      result = reduction();
    } else if (workload_.family == "elementwise") {
      result = elementwise({});
    } else {
      result = rows();
    }
    for (int tail = below(3); tail > 0; --tail) result = elementwise({result});
    if (chance(5)) result = padded(result);
    workload_.ir = text_.finish({result});
    workload_.tolerance = tolerance();
    return workload_;
  }

 private:
  bool chance(int one_in) { return random_() % one_in == 0; }
  int below(int limit) { return static_cast<int>(random_() % limit); }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  int64_t extent() { return pick<int64_t>({1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 40}); }
  bool integers() const { return element_ == "i32"; }
  std::string typed(const std::string& body) const {
    if (!integers()) return absl::StrReplaceAll(body, {{"f32", element_}});
    return absl::StrReplaceAll(body, {{"mulf", "muli"},
                                      {"addf", "addi"},
                                      {"subf", "subi"},
                                      {"maximumf", "maxsi"},
                                      {"minimumf", "minsi"},
                                      {"0.0", "0"},
                                      {"f32", "i32"}});
  }
  std::string zero() const { return integers() ? "0" : "0.0"; }

  /// A few ulps of the element type and of its sums.
  double tolerance() const {
    const double sum = 16 + 2 * std::sqrt(static_cast<double>(terms_));
    if (element_ == "f64") return 2.3e-16 * sum * steps_ + 1e-9 * functions_;  // functions of f64 are polynomials too
    if (element_ == "f16") return 9.8e-4 * (4 * steps_ + std::sqrt(static_cast<double>(terms_)));
    if (element_ == "bf16") return 7.9e-3 * (4 * steps_ + std::sqrt(static_cast<double>(terms_)));
    return 1.2e-7 * sum * steps_;
  }

  static std::string map(const Dims& dims) {
    return absl::StrJoin(dims, ", ", [](std::string* out, int d) { absl::StrAppend(out, "d", d); });
  }
  Dims shuffled(Dims dims) {
    // Mostly in order: typically a tensor's last dimension is a loop of its own.
    if (!chance(3)) std::shuffle(dims.begin(), dims.end(), random_);
    return dims;
  }
  static std::vector<int64_t> shapeOf(const Dims& dims, const std::vector<int64_t>& extents) {
    std::vector<int64_t> shape;
    for (int d : dims) shape.push_back(extents[d]);
    return shape;
  }

  /// Products over any loops: each belongs to the left, the right or both operands, to the result or the sum.
  Tensor contraction() {
    const int loops = 2 + below(4);
    std::vector<int64_t> extents;
    Dims left, right, kept;
    std::string kinds;
    int64_t points = 1;
    for (int d = 0; d < loops; ++d) {
      const int64_t e = std::min<int64_t>(extent(), std::max<int64_t>(1, 400'000 / points));
      points *= e;
      extents.push_back(e);
      const bool summed = d == loops - 1 || (d > 0 && chance(5));
      kinds += summed ? 'r' : 'p';
      if (!summed) kept.push_back(d);
      if (summed) terms_ *= e;
      const int side = summed ? below(8) : below(5);
      if (side == 1 || side == 3) {
        left.push_back(d);
      } else if (side == 2 || side == 4) {
        right.push_back(d);
      } else {
        left.push_back(d);
        right.push_back(d);
      }
    }
    const Dims l = shuffled(left), r = shuffled(right), o = chance(3) ? shuffled(kept) : kept;
    const Tensor a = text_.argument(shapeOf(l, extents), element_), b = text_.argument(shapeOf(r, extents), element_);
    const std::vector<int64_t> shape = shapeOf(o, extents);
    const Tensor start = chance(4) ? text_.argument(shape, element_) : text_.fill(shape, zero(), element_);
    return text_.generic({a, b}, {map(l), map(r), map(o)}, start, loops, kinds, typed(kMultiplyAdd));
  }

  /// A convolution or a pool in one or two dimensions, channels in any position, one filter per channel or one for all.
  Tensor window() {
    const int spatial = 1 + below(2);
    const int64_t channels = pick<int64_t>({1, 3, 8, 16, 20}), filters = pick<int64_t>({1, 4, 8, 16, 19});
    const bool depthwise = chance(3), pool = chance(4) && !integers();
    // Loops: channel of the result, positions, then the window, then the summed channel.
    std::vector<int64_t> extents{depthwise || pool ? channels : filters};
    std::string kinds(1 + spatial, 'p');
    std::vector<std::string> positions;
    std::vector<int64_t> image;
    std::vector<std::string> at;
    std::vector<int64_t> kernel;
    for (int d = 0; d < spatial; ++d) extents.push_back(pick<int64_t>({1, 2, 3, 5, 7, 14, 17}));
    for (int d = 0; d < spatial; ++d) {
      kernel.push_back(pick<int64_t>({1, 2, 3, 3, 5}));
      terms_ *= kernel.back();
      const int64_t stride = pick<int64_t>({1, 1, 2, 3}), dilation = pick<int64_t>({1, 1, 2});
      const int tap = 1 + spatial + d;
      at.push_back(absl::StrCat("d", 1 + d, " * ", stride, " + d", tap, " * ", dilation));
      image.push_back((extents[1 + d] - 1) * stride + (kernel.back() - 1) * dilation + 1);
      kinds += 'r';
    }
    const int loops = 1 + 2 * spatial + (depthwise || pool ? 0 : 1), summed = loops - 1;
    if (!depthwise && !pool) kinds += 'r', terms_ *= channels;
    const std::string channel = depthwise || pool ? "d0" : absl::StrCat("d", summed);
    std::vector<std::string> input_map = at, output_map{"d0"}, filter_map;
    std::vector<int64_t> input = image, output{extents[0]}, filter;
    const bool last = chance(2);  // channels last, or before the image
    input_map.insert(last ? input_map.end() : input_map.begin(), channel);
    input.insert(last ? input.end() : input.begin(), channels);
    for (int d = 0; d < spatial; ++d) {
      output_map.insert(last ? output_map.end() - 1 : output_map.end(), absl::StrCat("d", 1 + d));
      output.insert(last ? output.end() - 1 : output.end(), extents[1 + d]);
      filter_map.push_back(absl::StrCat("d", 1 + spatial + d));
      filter.push_back(kernel[d]);
    }
    if (!depthwise)
      filter_map.insert(chance(2) ? filter_map.begin() : filter_map.end(), channel),
          filter.insert(filter_map[0] == channel ? filter.begin() : filter.end(), channels);
    filter_map.insert(chance(2) ? filter_map.end() : filter_map.begin(), "d0");
    filter.insert(filter_map.back() == "d0" ? filter.end() : filter.begin(), extents[0]);
    const Tensor x = text_.argument(input, element_);
    const std::string in = absl::StrJoin(input_map, ", "), out = absl::StrJoin(output_map, ", ");
    if (pool) {
      // The image does not determine the window's extent, so an unread tensor carries it.
      const Tensor shape = text_.empty(kernel, element_);
      Dims window;
      for (int d = 0; d < spatial; ++d) window.push_back(1 + spatial + d);
      return text_.generic({x, shape}, {in, map(window), out}, text_.fill(output, lowest(), element_), loops, kinds,
                           typed("%r = arith.maximumf %i0, %o : f32"));
    }
    const Tensor w = text_.argument(filter, element_);
    return text_.generic({x, w}, {in, absl::StrJoin(filter_map, ", "), out}, text_.fill(output, zero(), element_),
                         loops, kinds, typed(kMultiplyAdd));
  }

  /// Negative infinity.
  std::string lowest() const {
    if (element_ == "f64") return "0xFFF0000000000000";
    if (element_ == "f16") return "0xFC00";
    return element_ == "bf16" ? "0xFF80" : "0xFF800000";
  }

  Tensor reduction() {
    const int loops = 2 + below(4);
    std::vector<int64_t> extents;
    Dims all, kept;
    std::string kinds;
    int64_t points = 1;
    const bool sum = integers() || chance(2);
    for (int d = 0; d < loops; ++d) {
      extents.push_back(std::min<int64_t>(extent(), std::max<int64_t>(1, 200'000 / points)));
      points *= extents.back();
      all.push_back(d);
      const bool summed = d == 0 ? false : chance(2);
      kinds += summed ? 'r' : 'p';
      if (summed && sum) terms_ *= extents.back();
      if (!summed) kept.push_back(d);
    }
    const Dims in = shuffled(all), out = chance(3) ? shuffled(kept) : kept;
    const Tensor x = text_.argument(shapeOf(in, extents), element_);
    const Tensor start = text_.fill(shapeOf(out, extents), sum ? zero() : lowest(), element_);
    return text_.generic({x}, {map(in), map(out)}, start, loops, kinds,
                         typed(sum ? "%r = arith.addf %i0, %o : f32" : "%r = arith.maximumf %i0, %o : f32"));
  }

  /// An elementwise operation on the given tensors, or on new ones, and on others that lack some dimensions or have
  /// them in another order.
  Tensor elementwise(std::vector<Tensor> inputs) {
    std::vector<int64_t> extents;
    int64_t points = 1;
    if (inputs.empty()) {
      for (int d = 1 + below(4); d > 0; --d) {
        extents.push_back(std::min<int64_t>(extent(), std::max<int64_t>(1, 100'000 / points)));
        points *= extents.back();
      }
    } else {
      extents = inputs[0].shape;
    }
    const int loops = static_cast<int>(extents.size());
    Dims all;
    for (int d = 0; d < loops; ++d) all.push_back(d);
    if (inputs.empty()) inputs.push_back(text_.argument(extents, element_));
    std::vector<std::string> maps{map(all)};
    Dims some;
    for (int d : all)
      if (chance(2)) some.push_back(d);
    some = shuffled(some);
    inputs.push_back(text_.argument(shapeOf(some, extents), element_));
    maps.push_back(map(some));
    const Dims turned = chance(3) ? shuffled(all) : all;
    maps.push_back(map(turned));
    ++steps_;
    std::string body = pick<std::string>({"%r = arith.addf %i0, %i1 : f32", "%r = arith.mulf %i0, %i1 : f32",
                                          "%r = arith.maximumf %i0, %i1 : f32",
                                          "%s = arith.subf %i0, %i1 : f32\n    %r = arith.mulf %s, %s : f32"});
    if (!integers() && chance(3)) {
      body = "%s = arith.addf %i0, %i1 : f32\n    %r = math." + pick<std::string>({"tanh", "erf", "sin", "absf"}) +
             " %s : f32";
      ++functions_;
    }
    return text_.generic(inputs, maps, text_.empty(shapeOf(turned, extents), element_), loops, "", typed(body));
  }

  /// A softmax over rows, or rows minus their mean.
  Tensor rows() {
    if (integers()) element_ = "f32";
    const std::vector<int64_t> shape{pick<int64_t>({1, 2, 3}), pick<int64_t>({1, 5, 12, 33}), extent()};
    const Tensor x = text_.argument(shape, element_);
    terms_ = shape[2];
    steps_ += 2, ++functions_;
    if (chance(2) && element_ != "f16" && element_ != "bf16") return softmax(text_, x);
    const std::vector<int64_t> row{shape[0], shape[1]};
    const Tensor sum = text_.generic({x}, {"d0, d1, d2", "d0, d1"}, text_.fill(row, zero(), element_), 3, "ppr",
                                     typed("%r = arith.addf %i0, %o : f32"));
    return text_.generic({x, sum}, {"d0, d1, d2", "d0, d1", "d0, d1, d2"}, text_.empty(shape, element_), 3, "",
                         typed("%c = arith.constant 0.03125 : f32\n    %m = arith.mulf %i1, %c : f32\n"
                               "    %r = arith.subf %i0, %m : f32"));
  }

  Tensor padded(const Tensor& x) {
    if (x.shape.empty()) return x;
    std::vector<int64_t> low, high;
    for (size_t d = 0; d < x.shape.size(); ++d) low.push_back(below(3)), high.push_back(below(3));
    return text_.pad(x, low, high, zero());
  }

  std::mt19937 random_;
  WorkloadText text_;
  RandomWorkload workload_;
  std::string element_;
  int64_t terms_ = 1;
  int steps_ = 1, functions_ = 0;
};

}  // namespace

RandomWorkload randomWorkload(unsigned seed) { return Writer(seed).write(); }

void randomSchedule(unsigned seed, const v1::BuildUnit& unit, v1::Schedule& schedule) {
  std::mt19937 random(seed * 2654435761U + 1);
  v1::BuildUnit changed = unit;
  for (int edit = 0; edit < 4; ++edit) {
    Mutations mutations(schedule, random);
    *changed.mutable_schedule() = mutations.at(random() % mutations.count()).first;
    if (checkSchedule(changed).ok()) schedule = changed.schedule();
  }
}

}  // namespace tessera::compiler::codegen::testing
