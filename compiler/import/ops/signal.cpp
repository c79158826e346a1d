// Windows, discrete Fourier transforms and spectral filters. Lengths are known at import, so windows and roots of unity
// are constants.
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/fourier.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

/// Most elements of a constant computed here: 64 MiB in single precision.
constexpr int64_t kLargestTable = 1 << 24;

/// Returns the single number of input `index`.
absl::StatusOr<int64_t> constantNumber(const Node& n, int index, const char* what, int64_t least) {
  TESSERA_ASSIGN_OR_RETURN(const auto values, n.constantIntegers(index, what));
  if (values.size() != 1 || values[0] < least || values[0] > INT32_MAX) {
    return n.invalid(absl::StrCat("bad ", what),
                     {.attribute = what,
                      .found = values.size() == 1 ? absl::StrCat(values[0]) : absl::StrCat(values.size(), " values"),
                      .accepted = absl::StrCat("one number of at least ", least)});
  }
  return values[0];
}

absl::Status checkTable(const Node& n, int64_t rows, int64_t columns) {
  // Tables are computed here element by element.
  // Both factors are below 2^33.
  if (static_cast<__int128>(rows) * columns <= kLargestTable) return absl::OkStatus();
  return n.unsupported(
      absl::StrCat("a table of ", rows, " by ", columns, " elements"),
      {.found = absl::StrCat(rows, "x", columns), .accepted = absl::StrCat("up to ", kLargestTable, " elements")});
}

/// w[i] = a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N), where N is the size, minus one unless periodic. A symmetric
/// window of one sample, for which the formula divides by zero, is 1.
Results cosineWindow(Node& n, double a0, double a1, double a2) {
  TESSERA_ASSIGN_OR_RETURN(const bool periodic, n.flag("periodic", true));
  TESSERA_ASSIGN_OR_RETURN(const v1::DataType dtype, n.dataType("output_datatype", v1::DATA_TYPE_F32));
  TESSERA_ASSIGN_OR_RETURN(const int64_t size, constantNumber(n, 0, "size", 0));
  TESSERA_RETURN_IF_ERROR(checkTable(n, size, 1));
  const auto span = static_cast<double>(std::max<int64_t>(periodic ? size : size - 1, 1));
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / span;
    values.push_back(size == 1 && !periodic ? 1 : a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return {{Emitter::wrap(realConstant(dtype, {size}, values))}};
}

Results lowerHannWindow(Node& n, Emitter&) { return cosineWindow(n, 0.5, 0.5, 0); }
Results lowerHammingWindow(Node& n, Emitter&) { return cosineWindow(n, 25.0 / 46, 21.0 / 46, 0); }
Results lowerBlackmanWindow(Node& n, Emitter&) { return cosineWindow(n, 0.42, 0.5, 0.08); }

/// Transforms x (... x given x parts) to (... x bins x bin_parts).
absl::StatusOr<Tensor> transform(const Node& n, Emitter& e, const Tensor& x, const Transform& t) {
  Shape shape(x.shape.begin(), x.shape.end() - 2);
  const int64_t rows = elementCount(shape);
  TESSERA_RETURN_IF_ERROR(checkTable(n, t.length, 2));
  // Stages between may be larger than input and result.
  TESSERA_RETURN_IF_ERROR(n.checkResult({rows, largestRow(t)}, x.dtype));  // between stages
  shape.insert(shape.end(), {t.bins, t.bin_parts});
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  return e.reshape(fourierTransform(e, e.reshape(x, {rows, t.given, t.parts}), t), shape);
}

/// Returns the first `length` elements of dimension `axis`, or all if there are fewer.
Tensor frontOfAxis(Emitter& e, const Tensor& x, int64_t axis, int64_t length) {
  std::vector<int64_t> zero(x.rank(), 0), sizes = x.shape, ones(x.rank(), 1);
  sizes[axis] = std::min(length, x.shape[axis]);
  return e.slice(x, zero, sizes, ones);
}

/// Returns the axis of a DFT, which moved from an attribute to an input in version 20.
absl::StatusOr<int64_t> transformedAxis(Node& n) {
  int64_t axis = n.opset() < 20 ? 1 : -2;
  if (n.opset() < 20) {
    TESSERA_ASSIGN_OR_RETURN(axis, n.integer("axis", 1));
  } else if (n.has(2)) {
    TESSERA_ASSIGN_OR_RETURN(const auto axes, n.constantIntegers(2, "axis"));
    if (axes.size() != 1) return n.invalid("the axis is not one integer", {.attribute = "axis", .accepted = "one"});
    axis = axes[0];
  }
  return n.normalizeAxis(axis, n.in(0).rank(), "axis");
}

/// Signals are transformed independently, so only their axis and the parts of a number need known sizes.
absl::Status dftExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, transformedAxis(n));
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it decides a size"));
  for (const auto& [dim, extent] : x.extents) {
    if (dim == axis || dim == x.rank() - 1) return refuseExtent(n, 0, dim, "elements along it are combined");
  }
  results[0].extents = x.extents;
  return absl::OkStatus();
}

Results lowerDft(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  Tensor x = n.in(0);
  const int64_t rank = x.rank();
  TESSERA_ASSIGN_OR_RETURN(const bool inverse, n.flag("inverse", false));
  TESSERA_ASSIGN_OR_RETURN(const bool onesided, n.flag("onesided", false));
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, transformedAxis(n));
  const int64_t parts = x.shape.back();
  // The last dimension holds real and imaginary part.
  if (axis == rank - 1 || (parts != 1 && parts != 2)) {
    return n.invalid("the last dimension is not the parts of a number",
                     {.attribute = "input",
                      .found = shapeText(x.shape),
                      .accepted = "1 (real) or 2 (complex) as last dimension, and another axis"});
  }
  // One side exists only of a real signal's spectrum.
  if (onesided && inverse != (parts == 2)) {
    return n.invalid(
        "one side of a complex signal, or of a real spectrum",
        {.attribute = "onesided", .found = "1", .accepted = "forward of real, inverse of complex numbers"});
  }
  // The inverse of one side is a real signal.
  const bool real_result = onesided && inverse;
  // From n bins on one side follow 2 (n - 1) samples, unless the length is given.
  int64_t length = real_result ? 2 * (x.shape[axis] - 1) : x.shape[axis];
  if (n.has(1)) {
    TESSERA_ASSIGN_OR_RETURN(length, constantNumber(n, 1, "dft_length", 1));
  }
  if (length < 1 || x.elements() == 0) {
    return n.invalid(real_result ? "the spectrum is empty" : "the signal is empty",
                     {.attribute = "input", .found = shapeText(x.shape)});
  }
  const int64_t one_side = length / 2 + 1;
  // Longer signals are cut off; shorter ones count as padded by zeros.
  x = frontOfAxis(e, x, axis, real_result ? one_side : length);
  // Moves the axis next to the parts, and back afterwards: the exchange is its own inverse.
  llvm::SmallVector<int64_t> exchange;
  for (int64_t d = 0; d < rank; ++d) exchange.push_back(d);
  std::swap(exchange[axis], exchange[rank - 2]);
  x = e.transpose(x, exchange);
  Transform t = {.length = length,
                 .given = x.shape[rank - 2],
                 .parts = parts,
                 .bins = onesided && !inverse ? one_side : length,
                 .inverse = inverse};
  if (real_result) {
    // Bins that the missing side mirrors count twice.
    x = weightedOneSide(e, x, length);
    t.bin_parts = 1;
  }
  TESSERA_ASSIGN_OR_RETURN(const Tensor bins, transform(n, e, x, t));
  return {{e.transpose(bins, exchange)}};
}

/// frames[b, f, t, p] = signal[b, f * step + t, p] * window[t]
Tensor cutFrames(Emitter& e, const Tensor& signal, const Tensor* window, const Shape& shape, int64_t step) {
  mlir::MLIRContext* context = e.b.getContext();
  auto dim = [&](unsigned d) { return mlir::getAffineDimExpr(d, context); };
  llvm::SmallVector<Access> operands = {
      {signal, AffineMap::get(4, 0, {dim(0), dim(1) * step + dim(2), dim(3)}, context)}};
  if (window) operands.push_back({*window, AffineMap::get(4, 0, {dim(2)}, context)});
  llvm::SmallVector<IteratorType> loops(4, IteratorType::parallel);
  return e.generic(signal.dtype, shape, operands, e.b.getMultiDimIdentityMap(4), loops, nullptr,
                   [](const Scalars& s, ValueRange v) { return v.size() == 2 ? s.mul(v[0], v[1]) : v[0]; });
}

Results lowerStft(Node& n, Emitter& e) {
  Tensor signal = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2, 3));
  if (signal.rank() == 2) signal = e.reshape(signal, {signal.shape[0], signal.shape[1], 1});
  const int64_t parts = signal.shape[2];
  TESSERA_ASSIGN_OR_RETURN(const bool onesided, n.flag("onesided", true));
  TESSERA_ASSIGN_OR_RETURN(const int64_t step, constantNumber(n, 1, "frame_step", 1));
  const bool windowed = n.has(2);
  int64_t length = 0;
  if (n.has(3)) {
    TESSERA_ASSIGN_OR_RETURN(length, constantNumber(n, 3, "frame_length", 1));
  } else if (windowed && n.in(2).rank() == 1) {
    // The window has the length of a frame.
    length = n.in(2).shape[0];
  }
  if (windowed && (n.in(2).shape != Shape{length} || n.in(2).dtype != signal.dtype)) {
    return n.invalid("the window does not fit",
                     {.attribute = "window",
                      .found = absl::StrCat(typeName(n.in(2).dtype), " ", shapeText(n.in(2).shape)),
                      .accepted = absl::StrCat(typeName(signal.dtype), " ", length)});
  }
  if ((parts != 1 && parts != 2) || (onesided && parts == 2)) {
    return n.invalid("the last dimension is not the parts of a number",
                     {.attribute = "signal",
                      .found = shapeText(signal.shape),
                      .accepted = onesided ? "1 (real)" : "1 (real) or 2 (complex)"});
  }
  if (length < 1 || length > signal.shape[1]) {
    return n.invalid("no frame fits the signal", {.attribute = "frame_length",
                                                  .found = absl::StrCat(length),
                                                  .accepted = absl::StrCat("1 to ", signal.shape[1])});
  }
  // Frames that begin before the last possible start.
  const Shape shape = {signal.shape[0], (signal.shape[1] - length) / step + 1, length, parts};
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, signal.dtype));
  Tensor frames = cutFrames(e, signal, windowed ? &n.in(2) : nullptr, shape, step);
  TESSERA_ASSIGN_OR_RETURN(
      Tensor bins,
      transform(n, e, frames,
                {.length = length, .given = length, .parts = parts, .bins = onesided ? length / 2 + 1 : length}));
  return {{std::move(bins)}};
}

absl::StatusOr<double> constantReal(const Node& n, int index, const char* what) {
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr value, n.constantInput(index, what));
  if (value->elements() == 1 && std::isfinite(value->realAt(0)) && value->realAt(0) > -700) return value->realAt(0);
  return n.invalid(absl::StrCat("bad ", what), {.attribute = what, .accepted = "one frequency above -700"});
}

/// Triangles over a spectrum's bins (rows), evenly spaced on the mel scale (columns).
Results lowerMelWeightMatrix(Node& n, Emitter&) {
  TESSERA_ASSIGN_OR_RETURN(const v1::DataType dtype, n.dataType("output_datatype", v1::DATA_TYPE_F32));
  TESSERA_ASSIGN_OR_RETURN(const int64_t columns, constantNumber(n, 0, "num_mel_bins", 1));
  TESSERA_ASSIGN_OR_RETURN(const int64_t length, constantNumber(n, 1, "dft_length", 1));
  TESSERA_ASSIGN_OR_RETURN(const int64_t rate, constantNumber(n, 2, "sample_rate", 1));
  TESSERA_ASSIGN_OR_RETURN(const double lower, constantReal(n, 3, "lower_edge_hertz"));
  TESSERA_ASSIGN_OR_RETURN(const double upper, constantReal(n, 4, "upper_edge_hertz"));
  const int64_t rows = length / 2 + 1;
  TESSERA_RETURN_IF_ERROR(checkTable(n, rows, columns));
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(upper) - mel(lower)) / static_cast<double>(columns + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < columns + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (mel(lower) + static_cast<double>(i) * step) / 2595) - 1);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    // Must ascend, because the triangles below have a rising and a falling side.
    if (!(bin >= 0 && bin < static_cast<double>(rows)) || (i > 0 && bin < static_cast<double>(edges.back()))) {
      return n.invalid("the frequencies leave the spectrum",
                       {.attribute = "upper_edge_hertz",
                        .found = absl::StrCat(lower, " to ", upper, " Hz"),
                        .accepted = absl::StrCat("rising, 0 to ", rate / 2, " Hz")});
    }
    edges.push_back(static_cast<int64_t>(bin));
  }
  std::vector<double> weights(rows * columns, 0.0);
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t low = edges[c], centre = edges[c + 1], high = edges[c + 2];
    for (int64_t row = low; row < centre; ++row) {
      weights[row * columns + c] = static_cast<double>(row - low) / static_cast<double>(centre - low);
    }
    weights[centre * columns + c] = 1;
    for (int64_t row = centre; row < high; ++row) {
      weights[row * columns + c] = static_cast<double>(high - row) / static_cast<double>(high - centre);
    }
  }
  return {{Emitter::wrap(realConstant(dtype, {rows, columns}, weights))}};
}

}  // namespace

std::vector<Operator> signalOperators() {
  return {
      {"HannWindow", 17, 1, 1, lowerHannWindow, kIntegers},
      {"HammingWindow", 17, 1, 1, lowerHammingWindow, kIntegers},
      {"BlackmanWindow", 17, 1, 1, lowerBlackmanWindow, kIntegers},
      {"DFT", 17, 1, 3, lowerDft, kFloats, 1, INT_MAX, "", dftExtents},
      {"STFT", 17, 2, 4, lowerStft, kFloats, 1, INT_MAX, "", independentRowExtents},
      {"MelWeightMatrix", 17, 5, 5, lowerMelWeightMatrix, kIntegers},
  };
}

}  // namespace tessera::compiler
