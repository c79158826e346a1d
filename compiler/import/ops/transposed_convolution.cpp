// Transposed convolutions: filters C x F/groups x kernel...; strides spread the result.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/convolution.h"
#include "compiler/import/ops/window.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

/// Rearranges filters C x F/groups x k... to F x C/groups x k... with every kernel reversed.
Tensor flippedFilter(Emitter& e, const Tensor& w, int64_t groups) {
  const int64_t channels = w.shape[0] / groups, outputs = w.shape[1];
  Shape shape = w.shape;
  shape[0] = outputs * groups;
  shape[1] = channels;
  // Source of element [g * outputs + f, c, k...]: [g * channels + c, f, K - 1 - k...].
  // A constant filter is rearranged now, since every run would do the same.
  if (w.constant) {
    const int64_t kernel = elementCount({w.shape.begin() + 2, w.shape.end()});
    const int64_t size = elementBytes(w.dtype);
    std::string bytes(w.constant->bytes.size(), '\0');
    for (int64_t at = 0; at < w.elements(); ++at) {
      const int64_t k = at % kernel, c = at / kernel % channels, f = at / kernel / channels;
      const int64_t g = f / outputs;
      const int64_t from = ((g * channels + c) * outputs + f % outputs) * kernel + kernel - 1 - k;
      std::copy_n(w.constant->bytes.data() + from * size, size, bytes.data() + at * size);
    }
    return Emitter::wrap(makeConstant(w.dtype, shape, std::move(bytes)));
  }
  Value source = e.value(w);
  return e.generate(w.dtype, shape, [&](const Scalars& s, mlir::ValueRange at) {
    namespace arith = mlir::arith;
    auto constant = [&](int64_t value) { return arith::ConstantIndexOp::create(s.b, s.loc, value).getResult(); };
    Value group = arith::DivUIOp::create(s.b, s.loc, at[0], constant(outputs));
    Value channel =
        arith::AddIOp::create(s.b, s.loc, arith::MulIOp::create(s.b, s.loc, group, constant(channels)), at[1]);
    llvm::SmallVector<Value> from = {channel, arith::RemUIOp::create(s.b, s.loc, at[0], constant(outputs))};
    for (size_t d = 2; d < shape.size(); ++d) {
      from.push_back(arith::SubIOp::create(s.b, s.loc, constant(shape[d] - 1), at[d]));
    }
    return e.extract(s, source, from);
  });
}

/// Computes padding and output size of a transposed convolution (the specification's two formulas).
absl::Status transposedSizes(Node& n, const std::vector<int64_t>& spatial, Window& window) {
  const size_t rank = spatial.size();
  TESSERA_ASSIGN_OR_RETURN(const auto pads, spatialAttribute(n, "pads", 2 * rank, 0, 0));
  TESSERA_ASSIGN_OR_RETURN(const auto extra, spatialAttribute(n, "output_padding", rank, 0, 0));
  TESSERA_ASSIGN_OR_RETURN(const auto wanted, spatialAttribute(n, "output_shape", rank, 0, 0));
  TESSERA_ASSIGN_OR_RETURN(const std::string auto_pad, readAutoPad(n));
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  const auto extent = dilatedKernelSize(window);
  for (size_t d = 0; d < rank; ++d) {
    // The size without any cut.
    const int64_t full = window.strides[d] * (spatial[d] - 1) + extra[d] + extent[d];
    int64_t low = auto_pad == "NOTSET" ? pads[d] : 0;
    int64_t high = auto_pad == "NOTSET" ? pads[rank + d] : 0;
    // A wanted size decides how much is cut off.
    if (same || wanted[d] > 0) {
      const int64_t total = std::max<int64_t>(full - (wanted[d] > 0 ? wanted[d] : spatial[d] * window.strides[d]), 0);
      low = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    }
    window.low.push_back(low);
    window.high.push_back(high);
    window.output.push_back(wanted[d] > 0 ? wanted[d] : full - low - high);
    if (window.output[d] < 1 || spatial[d] < 1) {
      return n.invalid(absl::StrCat("spatial dimension ", d, " of the result is empty"),
                       {.attribute = "pads", .found = absl::StrCat(window.output[d]), .accepted = "1 or more"});
    }
  }
  return absl::OkStatus();
}

/// The phases of one dimension of a transposed convolution with stride s. Element o of the result is phase r of
/// position q, where q s + r = o + cut: out[o] = sum over t of x[q + first + t] w[r + shift - (first + t) s].
struct Phases {
  int64_t cut = 0;        ///< elements of position 0 before the result
  int64_t shift = 0;      ///< offset of the kernel's elements against a position's phases
  int64_t positions = 1;  ///< elements of the result and cut elements, over s
  int64_t first = 0;      ///< first input element that a position reads, relative to its number
  int64_t taps = 1;       ///< number of input elements it reads, for any phase

  /// Returns the kernel element that `phase` multiplies with the input of `tap`; may be outside the kernel.
  int64_t element(int64_t phase, int64_t tap, int64_t stride) const { return phase + shift - (first + tap) * stride; }
};

int64_t floorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// Returns the cut with the fewest products; among these, the smallest cut.
Phases phasesOf(const Window& window, size_t d) {
  const int64_t s = window.strides[d];
  std::optional<Phases> best;
  for (int64_t cut = 0; cut < s; ++cut) {
    Phases phases{.cut = cut, .shift = window.low[d] - cut, .positions = (window.output[d] + cut + s - 1) / s};
    phases.first = -floorDiv(window.kernel[d] - 1 - phases.shift, s);
    phases.taps = floorDiv(phases.shift + s - 1, s) - phases.first + 1;
    if (!best || phases.positions * phases.taps < best->positions * best->taps) best = phases;
  }
  return *best;
}

/// Repeats a constant bias for each phase, in the channel order of convolvePhases' product.
Tensor biasOfPhases(const Tensor& bias, int64_t groups, int64_t phases) {
  const int64_t size = elementBytes(bias.dtype), row = bias.elements() / groups * size;
  std::string bytes;
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t phase = 0; phase < phases; ++phase) bytes.append(bias.constant->bytes, group * row, row);
  }
  return Emitter::wrap(makeConstant(bias.dtype, {phases * bias.elements()}, std::move(bytes)));
}

/// Computes a transposed convolution as one with stride 1 that has the s x s... results of a position as channels,
/// which then move to their places (Phases). Every phase has the same number of taps, padded with zeros where the
/// kernel has no element; no zeros between elements are multiplied. A constant bias is added to the channels, which is
/// free in the product.
absl::StatusOr<Tensor> convolvePhases(Node& n, Emitter& e, const Tensor& x, const Tensor& w, int64_t groups,
                                      const Window& window) {
  const size_t rank = window.rank();
  const int64_t batch = x.shape[0], outputs = w.shape[1], channels = w.shape[0] / groups;
  std::vector<int64_t> spatial(x.shape.begin() + 2, x.shape.end()), taps, positions, cuts;
  std::vector<Phases> divided;
  int64_t phases = 1;
  Window unit = window;
  unit.strides.assign(rank, 1);
  // Positions may read before the first or after the last input element.
  std::vector<int64_t> start = {0, 0}, read = {batch, x.shape[1]};
  for (size_t d = 0; d < rank; ++d) {
    const Phases& along = divided.emplace_back(phasesOf(window, d));
    taps.push_back(along.taps);
    positions.push_back(along.positions);
    cuts.push_back(along.cut);
    phases *= window.strides[d];
    const int64_t last = along.positions - 1 + along.first + along.taps - 1;  // last input element that is read
    unit.low[d] = std::max<int64_t>(0, -along.first);
    unit.high[d] = std::max<int64_t>(0, last - (spatial[d] - 1));
    start.push_back(std::max<int64_t>(0, along.first));
    read.push_back(along.positions + along.taps - 1);
  }
  unit.kernel = taps;
  // With stride 1: each phase is a channel of its own.
  unit.output = positions;
  Tensor padded = padSpatial(e, x, unit, e.scalars(x.dtype).constant(0));
  padded = e.slice(padded, start, read, std::vector<int64_t>(x.rank(), 1));

  // [group, phase..., output of the group, channel, tap...] from [channel of all groups, output, kernel...].
  Shape shape = {groups * phases * outputs, channels};
  shape.insert(shape.end(), taps.begin(), taps.end());
  const int64_t size = elementBytes(w.dtype);
  std::string bytes(elementCount(shape) * size, '\0');
  const int64_t count = elementCount(shape);
  for (int64_t at = 0; at < count; ++at) {
    int64_t rest = at, from = 0, weight = 1, phase_weight = 1;
    // Takes the position in the new filter apart, last digit first.
    std::vector<int64_t> tap(rank);
    for (size_t d = rank; d-- > 0; rest /= taps[d]) tap[d] = rest % taps[d];
    const int64_t channel = rest % channels, output = rest / channels % outputs,
                  phase = rest / channels / outputs % phases, group = rest / channels / outputs / phases;
    bool exists = true;
    // Finds the kernel's element for this phase and tap; it may not exist.
    for (size_t d = rank; d-- > 0;) {
      const int64_t s = window.strides[d], k = divided[d].element(phase / phase_weight % s, tap[d], s);
      exists &= k >= 0 && k < window.kernel[d];
      from += k * weight;
      weight *= window.kernel[d];
      phase_weight *= window.strides[d];
    }
    from += ((group * channels + channel) * outputs + output) * weight;
    if (exists) std::copy_n(w.constant->bytes.data() + from * size, size, bytes.data() + at * size);
  }
  const Tensor filter = Emitter::wrap(makeConstant(w.dtype, shape, std::move(bytes)));
  Tensor product = convolve(e, padded, filter, {groups, groups * phases * outputs, channels, taps}, unit);
  // The bias can be added now only if its values are known.
  const bool early = n.has(2) && n.in(2).constant && n.in(2).shape == Shape{groups * outputs};
  if (early) {
    Shape aligned(x.rank() - 1, 1);
    aligned[0] = product.shape[1];
    product = e.elementwise(x.dtype, {product, e.reshape(biasOfPhases(n.in(2), groups, phases), std::move(aligned))},
                            [](const Scalars& s, mlir::ValueRange v) { return s.add(v[0], v[1]); });
  }

  // [n, group, phase..., output, position...] to [n, group, output, (position, phase)...].
  Shape digits = {batch, groups};
  digits.insert(digits.end(), window.strides.begin(), window.strides.end());
  digits.push_back(outputs);
  digits.insert(digits.end(), positions.begin(), positions.end());
  const auto r = static_cast<int64_t>(rank);
  std::vector<int64_t> permutation = {0, 1, 2 + r};
  Shape whole = {batch, groups * outputs};
  for (int64_t d = 0; d < r; ++d) {
    permutation.insert(permutation.end(), {3 + r + d, 2 + d});
    whole.push_back(positions[d] * window.strides[d]);
  }
  Tensor placed = e.reshape(e.transpose(e.reshape(product, digits), permutation), whole);
  cuts.insert(cuts.begin(), {0, 0});
  Shape result = {batch, groups * outputs};
  result.insert(result.end(), window.output.begin(), window.output.end());
  if (result != whole) placed = e.slice(placed, cuts, result, std::vector<int64_t>(x.rank(), 1));
  if (early) return placed;
  return addBias(n, e, placed, 2);
}

/// Whether convolvePhases applies: the weight is constant, every stride has taps, and the zeros that equalize the
/// phases are fewer than those between spread elements.
bool hasPhases(const Tensor& w, const Window& window) {
  double spread = 1, zeros = 1;  // factors by which either method multiplies more than necessary
  for (size_t d = 0; d < window.rank(); ++d) {
    if (window.dilations[d] != 1) return false;
    const int64_t s = window.strides[d], whole = (window.kernel[d] + s - 1) / s * s;
    zeros *= static_cast<double>(whole) / static_cast<double>(window.kernel[d]);
    spread *= static_cast<double>(s);
  }
  return w.constant && spread > 1 && zeros < spread && zeros <= 4;
}

/// Returns the extents of the result and zeros x beyond its own extents, since padding there would spread back before
/// the end.
absl::StatusOr<std::map<int64_t, Value>> transposedExtents(Node& n, Emitter& e, Tensor& x, const Window& window) {
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it has to fit input 0"));
  const std::map<int64_t, Value> given = x.extents;
  std::map<int64_t, Value> extents;
  for (const auto& [dim, extent] : given) {
    if (dim == 0) extents[dim] = extent;
    if (dim == 0) continue;
    if (dim == 1) return refuseExtent(n, 0, dim, "elements along it are combined");
    if (n.hasAttribute("output_shape")) return refuseExtent(n, 0, dim, "the padding follows from it");
    const size_t d = static_cast<size_t>(dim) - 2;
    x = zeroed(e, x, dim);
    // The size is `stride` times the input's plus a constant, for any input size.
    const int64_t more = window.output[d] - x.shape[dim] * window.strides[d];
    const Tensor image = extentOf(x, dim);
    extents[dim] = scaledExtent(e, image, window.strides[d], more).value;
    n.mustNotBecomeEmpty(image, extents[dim], absl::StrCat("nothing is left of spatial dimension ", d, ", which is "),
                         "");
  }
  return extents;
}

}  // namespace

/// If convolvePhases does not apply: a convolution with stride 1 of the spread input, with stride - 1 zeros between its
/// elements.
Results lowerConvTranspose(Node& n, Emitter& e) {
  Tensor x = n.in(0);
  const Tensor& w = n.in(1);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  TESSERA_RETURN_IF_ERROR(n.requireRank(1, x.rank(), x.rank()));
  TESSERA_ASSIGN_OR_RETURN(const int64_t groups, n.integer("group", 1));
  std::vector<int64_t> spatial(x.shape.begin() + 2, x.shape.end());
  Window window;
  window.kernel.assign(w.shape.begin() + 2, w.shape.end());
  TESSERA_ASSIGN_OR_RETURN(const auto kernel, n.integers("kernel_shape", window.kernel));
  const bool empty = w.elements() == 0 || x.elements() == 0;
  if (kernel != window.kernel || groups < 1 || x.shape[1] != w.shape[0] || w.shape[0] % groups != 0 || empty) {
    return n.invalid(absl::StrCat("input ", shapeText(x.shape), " and weight ", shapeText(w.shape), " do not fit"),
                     {.attribute = "W",
                      .found = shapeText(w.shape),
                      .accepted = "input channels x outputs per group x kernel_shape"});
  }
  TESSERA_ASSIGN_OR_RETURN(window.strides, spatialAttribute(n, "strides", spatial.size(), 1, 1));
  TESSERA_ASSIGN_OR_RETURN(window.dilations, spatialAttribute(n, "dilations", spatial.size(), 1, 1));
  TESSERA_RETURN_IF_ERROR(transposedSizes(n, spatial, window));
  TESSERA_ASSIGN_OR_RETURN(const auto extents, transposedExtents(n, e, x, window));
  if (hasPhases(w, window)) {
    Shape shape = {x.shape[0], w.shape[1] * groups};
    shape.insert(shape.end(), window.output.begin(), window.output.end());
    TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
    TESSERA_ASSIGN_OR_RETURN(Tensor biased, convolvePhases(n, e, x, w, groups, window));
    biased.extents = extents;
    return {{std::move(biased)}};
  }

  const auto extent = dilatedKernelSize(window);
  Shape spread = {x.shape[0], x.shape[1]}, result = {x.shape[0], w.shape[1] * groups};
  llvm::SmallVector<mlir::OpFoldResult> offsets(2, e.b.getIndexAttr(0)), sizes, strides(2, e.b.getIndexAttr(1));
  for (int64_t dim : x.shape) sizes.push_back(e.b.getIndexAttr(dim));
  std::vector<int64_t> place = {0, 0}, crop = {0, 0};
  for (size_t d = 0; d < spatial.size(); ++d) {
    // Window o reads [o, o + extent) of the spread input, whose element i is at i * stride + extent - 1 - low.
    const int64_t first = extent[d] - 1 - window.low[d];
    crop.push_back(std::max<int64_t>(-first, 0));
    place.push_back(std::max<int64_t>(first, 0));
    const int64_t need = window.output[d] + extent[d] - 1 + crop.back();
    spread.push_back(std::max(need, place.back() + (spatial[d] - 1) * window.strides[d] + 1));
    result.push_back(window.output[d]);
    offsets.push_back(e.b.getIndexAttr(place.back()));
    strides.push_back(e.b.getIndexAttr(window.strides[d]));
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(spread, x.dtype));
  TESSERA_RETURN_IF_ERROR(n.checkResult(result, x.dtype));
  Tensor zeros = e.zeros(x.dtype, spread);
  Tensor inserted = Emitter::wrap(
      mlir::tensor::InsertSliceOp::create(e.b, e.loc, e.value(x), zeros.value, offsets, sizes, strides), x.dtype);
  Shape read = {x.shape[0], x.shape[1]};
  for (size_t d = 0; d < spatial.size(); ++d) read.push_back(window.output[d] + extent[d] - 1);
  Tensor input = e.slice(inserted, crop, read, std::vector<int64_t>(x.rank(), 1));

  Window unit = window;
  unit.strides.assign(spatial.size(), 1);
  const Filter f{groups, w.shape[1] * groups, w.shape[0] / groups, window.kernel};
  Tensor product = convolve(e, input, flippedFilter(e, w, groups), f, unit);
  TESSERA_ASSIGN_OR_RETURN(Tensor biased, addBias(n, e, product, 2));
  biased.extents = extents;
  return {{std::move(biased)}};
}

}  // namespace tessera::compiler
