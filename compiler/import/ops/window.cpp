#include "compiler/import/ops/window.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/ops/dynamic_shape.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

bool Window::padded() const {
  for (size_t d = 0; d < rank(); ++d) {
    if (low[d] != 0 || high[d] != 0) return true;
  }
  return false;
}

std::vector<int64_t> dilatedKernelSize(const Window& window) {
  std::vector<int64_t> extent;
  for (size_t d = 0; d < window.rank(); ++d) extent.push_back((window.kernel[d] - 1) * window.dilations[d] + 1);
  return extent;
}

absl::StatusOr<std::vector<int64_t>> spatialAttribute(Node& n, const std::string& name, size_t count, int64_t least,
                                                      int64_t fallback) {
  TESSERA_ASSIGN_OR_RETURN(auto values, n.integers(name, std::vector<int64_t>(count, fallback)));
  // Some exporters write an empty list for the default.
  if (values.empty()) values.assign(count, fallback);
  bool valid = values.size() == count;
  for (int64_t value : values) valid &= value >= least && value <= INT32_MAX;
  if (!valid) {
    return n.invalid(absl::StrCat("attribute '", name, "' does not fit the input"),
                     {.attribute = name,
                      .found = shapeText(values),
                      .accepted = absl::StrCat(count, " integers of at least ", least)});
  }
  return values;
}

namespace {

/// Returns the error text around an image's extent in spatial dimension `d`.
std::pair<std::string, std::string> misfit(int64_t reach, size_t d, int64_t padding) {
  return {absl::StrCat("the window of ", reach, " is larger than spatial dimension ", d, ", which is "),
          padding > 0 ? absl::StrCat(" and padded by ", padding) : ""};
}

}  // namespace

absl::StatusOr<std::string> readAutoPad(Node& n) {
  TESSERA_ASSIGN_OR_RETURN(std::string rule, n.text("auto_pad", "NOTSET"));
  if (rule.empty()) return "NOTSET";
  if (rule != "NOTSET" && rule != "SAME_UPPER" && rule != "SAME_LOWER" && rule != "VALID") {
    return n.invalid("unknown auto_pad",
                     {.attribute = "auto_pad", .found = rule, .accepted = "NOTSET, SAME_UPPER, SAME_LOWER, VALID"});
  }
  return rule;
}

absl::StatusOr<Window> readWindow(Node& n, std::vector<int64_t> spatial, std::vector<int64_t> kernel, bool ceil_mode) {
  const size_t rank = spatial.size();
  Window window;
  if (ceil_mode) window.rule = Window::Rule::kCeil;
  window.kernel = std::move(kernel);
  TESSERA_ASSIGN_OR_RETURN(window.strides, spatialAttribute(n, "strides", rank, 1, 1));
  TESSERA_ASSIGN_OR_RETURN(window.dilations, spatialAttribute(n, "dilations", rank, 1, 1));
  TESSERA_ASSIGN_OR_RETURN(const auto pads, spatialAttribute(n, "pads", 2 * rank, 0, 0));
  TESSERA_ASSIGN_OR_RETURN(const std::string auto_pad, readAutoPad(n));
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (same) window.rule = auto_pad == "SAME_UPPER" ? Window::Rule::kSameUpper : Window::Rule::kSameLower;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t stride = window.strides[d];
    // Both factors are below 2^31, so this and the sums below stay within 64 bits.
    const int64_t extent = (window.kernel[d] - 1) * window.dilations[d] + 1;
    int64_t low = auto_pad == "NOTSET" ? pads[d] : 0;
    int64_t high = auto_pad == "NOTSET" ? pads[rank + d] : 0;
    int64_t output = 0, declared_high = 0;
    // SAME derives the padding from the number of results, one for each started stride.
    if (same) {
      output = (spatial[d] + stride - 1) / stride;
      const int64_t total = std::max<int64_t>((output - 1) * stride + extent - spatial[d], 0);
      low = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      declared_high = high = total - low;
    } else {
      // Explicit padding derives the number of results from the room for the window.
      const int64_t room = spatial[d] + low + high - extent, rounded_up = ceil_mode ? stride - 1 : 0;
      if (room + rounded_up < 0) {
        const auto [before, after] = misfit(extent, d, low + high);
        return n.invalid(absl::StrCat(before, spatial[d], " long", after),
                         {.attribute = "kernel_shape",
                          .found = absl::StrCat(extent),
                          .accepted = absl::StrCat("up to ", spatial[d] + low + high)});
      }
      output = (room + rounded_up) / stride + 1;
      // A window that would start in the padding after the input is dropped.
      if (ceil_mode && (output - 1) * stride >= spatial[d] + low) --output;
      declared_high = high;
      // Rounding up may need padding that the model does not declare.
      if (ceil_mode) high = std::max(high, (output - 1) * stride + extent - spatial[d] - low);
    }
    window.low.push_back(low);
    window.high.push_back(high);
    window.declared_high.push_back(declared_high);
    window.output.push_back(output);
  }
  return window;
}

namespace {

/// Pads dimension `dim` of x as SAME requires for its extent, and removes that padding from the window. Returns the
/// extent of the result.
mlir::Value padSame(Emitter& e, Tensor& x, int64_t dim, Window& window,
                    llvm::function_ref<mlir::Value(const Scalars&)> neutral) {
  const size_t d = static_cast<size_t>(dim) - 2;
  const int64_t stride = window.strides[d], reach = dilatedKernelSize(window)[d];
  const bool upper = window.rule == Window::Rule::kSameUpper;
  const Tensor extent = extentOf(x, dim);
  const auto of_extent = [&](auto compute) {
    return e.elementwise(v1::DATA_TYPE_I64, {extent},
                         [&](const Scalars& s, mlir::ValueRange v) -> mlir::Value { return compute(s, v[0]); });
  };
  // Computed in each run, as SAME's padding depends on the size itself.
  const auto outputs = [&](const Scalars& s, mlir::Value size) {
    return s.div(s.add(size, s.integer(stride - 1)), s.integer(stride));
  };
  const auto padded = [&](const Scalars& s, mlir::Value size) {
    return s.max(s.add(s.mul(outputs(s, size), s.integer(stride)), s.integer(reach - stride)), size);
  };
  DynamicPadding padding;
  padding.size = of_extent(padded);
  padding.low = of_extent([&](const Scalars& s, mlir::Value size) {
    return s.div(s.add(s.sub(padded(s, size), size), s.integer(upper ? 0 : 1)), s.integer(2));
  });
  // The bound's padded size is not always the greatest: the shape must fit either.
  padding.most = std::max(x.shape[dim], (window.output[d] - 1) * stride + reach);
  const mlir::Value result = of_extent(outputs).value;
  x = padDynamic(e, x, dim, padding, neutral);
  // The tensor is padded now, so the window has no padding left.
  window.low[d] = window.high[d] = window.declared_high[d] = 0;
  return result;
}

}  // namespace

absl::StatusOr<std::map<int64_t, mlir::Value>> resultExtentsOfWindow(
    Node& n, Emitter& e, Tensor& x, Window& window, llvm::function_ref<mlir::Value(const Scalars&)> neutral) {
  std::map<int64_t, mlir::Value> extents;
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it has to fit input 0"));
  const std::vector<int64_t> reach = dilatedKernelSize(window);
  const std::map<int64_t, mlir::Value> given = x.extents;
  for (const auto& [dim, extent] : given) {
    // Each image of a batch is on its own.
    if (dim == 0) extents[dim] = extent;
    if (dim == 0) continue;
    if (dim == 1) return refuseExtent(n, 0, dim, "elements along it are combined");
    const size_t d = static_cast<size_t>(dim) - 2;
    const int64_t stride = window.strides[d], room = window.low[d] + window.declared_high[d] - reach[d];
    const bool rounded_up = window.rule == Window::Rule::kCeil && stride > 1;
    // With stride 1 or a given padding the padding is the same at all sizes.
    if (stride > 1 && window.rule != Window::Rule::kGiven && !rounded_up) {
      extents[dim] = padSame(e, x, dim, window, neutral);
      continue;
    }
    // Padding starts at the run-time end. Also, a kernel may combine used windows with unused neighbours (Winograd), so
    // an infinity beyond the extent would spoil used results.
    if (window.high[d] > 0 || rounded_up || (reach[d] > 1 && stride == 1)) x = masked(e, x, dim, neutral);
    // Without this shortcut an unchanged extent would become a new value, which no later comparison recognizes.
    const bool kept = stride == 1 && room == -1;
    const Tensor image = extentOf(x, dim);
    extents[dim] = kept ? extent : e.elementwise(v1::DATA_TYPE_I64, {image}, [&](const Scalars& s, mlir::ValueRange v) {
                                      const int64_t more = room + stride + (rounded_up ? stride - 1 : 0);
                                      mlir::Value count = s.div(s.add(v[0], s.integer(more)), s.integer(stride));
                                      if (rounded_up) {
                                        // A window that would start in the padding after the input is dropped.
                                        const mlir::Value start = s.mul(s.sub(count, s.integer(1)), s.integer(stride));
                                        const mlir::Value end = s.add(v[0], s.integer(window.low[d]));
                                        const mlir::Value drops = s.compare(Relation::kGreaterOrEqual, start, end);
                                        count = s.select(drops, s.sub(count, s.integer(1)), count);
                                      }
                                      return s.max(count, s.integer(0));
                                    }).value;
    if (kept) continue;
    // Sizes for which no window fits are refused, not computed as empty.
    const auto [before, after] = misfit(reach[d], d, window.low[d] + window.declared_high[d]);
    n.mustNotBecomeEmpty(image, extents[dim], before, after);
  }
  return extents;
}

Tensor padSpatial(Emitter& e, const Tensor& x, const Window& window, mlir::Value value) {
  std::vector<int64_t> low = {0, 0}, high = {0, 0};
  low.insert(low.end(), window.low.begin(), window.low.end());
  high.insert(high.end(), window.high.begin(), window.high.end());
  return e.pad(x, low, high, value);
}

}  // namespace tessera::compiler
