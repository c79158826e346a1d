// Windows and discrete Fourier transforms. Lengths are known at import, so windows and the transform's matrix are
// constants; a transform is one matrix product, which for the frame lengths of audio models (up to a few
// thousand) runs at the speed of one.
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/matmul.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

/// Elements of a constant computed here: 64 MiB in single precision.
constexpr int64_t kLargestTable = 1 << 24;

/// The single number of input `index`.
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
  // Both factors are below 2^33.
  if (static_cast<__int128>(rows) * columns <= kLargestTable) return absl::OkStatus();
  return n.unsupported(
      absl::StrCat("a table of ", rows, " by ", columns, " elements"),
      {.found = absl::StrCat(rows, "x", columns), .accepted = absl::StrCat("up to ", kLargestTable, " elements")});
}

/// w[i] = a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N), where N is the size, less one unless periodic. A symmetric
/// window of one sample, where the formula divides by zero, is 1.
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

/// A transform of `length` samples of `parts` (1 real, 2 complex) each to `bins` complex numbers.
struct Transform {
  int64_t length, parts, bins;
  bool inverse;
};

/// The transform as a matrix: (sample, part) x (bin, part).
ConstantPtr transformMatrix(const Transform& t, v1::DataType dtype) {
  std::vector<double> values;
  values.reserve(t.length * t.parts * t.bins * 2);
  const double sign = t.inverse ? 1 : -1;
  const double scale = t.inverse ? 1 / static_cast<double>(t.length) : 1;
  for (int64_t sample = 0; sample < t.length; ++sample) {
    for (int64_t part = 0; part < t.parts; ++part) {
      for (int64_t bin = 0; bin < t.bins; ++bin) {
        // Reduced modulo the length first: the angle stays small, hence exact.
        const double turn = static_cast<double>((sample * bin) % t.length) / static_cast<double>(t.length);
        const double real = std::cos(2 * std::numbers::pi * turn) * scale;
        const double imaginary = sign * std::sin(2 * std::numbers::pi * turn) * scale;
        // (a + i b) (c + i d) = (a c - b d) + i (a d + b c)
        values.push_back(part == 0 ? real : -imaginary);
        values.push_back(part == 0 ? imaginary : real);
      }
    }
  }
  return realConstant(dtype, {t.length * t.parts, t.bins * 2}, values);
}

/// x (... x length x parts) to (... x bins x 2).
absl::StatusOr<Tensor> transform(const Node& n, Emitter& e, const Tensor& x, const Transform& t) {
  TESSERA_RETURN_IF_ERROR(checkTable(n, t.length * t.parts, t.bins * 2));
  Shape shape(x.shape.begin(), x.shape.end() - 2);
  const int64_t rows = elementCount(shape);
  shape.push_back(t.bins);
  shape.push_back(2);
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  Value left = e.value(e.reshape(x, {rows, t.length * t.parts}));
  Value right = e.value(Emitter::wrap(transformMatrix(t, x.dtype)));
  Value zero = e.zeros(x.dtype, {rows, t.bins * 2}).value;
  auto product = mlir::linalg::MatmulOp::create(e.b, e.loc, mlir::TypeRange{zero.getType()}, ValueRange{left, right},
                                                ValueRange{zero});
  return e.reshape(Emitter::wrap(product->getResult(0), x.dtype), shape);
}

/// Cuts or fills up dimension `axis` with zeros to `length`.
absl::StatusOr<Tensor> resized(const Node& n, Emitter& e, const Tensor& x, int64_t axis, int64_t length) {
  std::vector<int64_t> zero(x.rank(), 0), high(x.rank(), 0), sizes = x.shape, ones(x.rank(), 1);
  sizes[axis] = std::min(length, x.shape[axis]);
  Tensor cut = e.slice(x, zero, sizes, ones);
  high[axis] = length - sizes[axis];
  sizes[axis] = length;
  TESSERA_RETURN_IF_ERROR(n.checkResult(sizes, x.dtype));
  return e.pad(cut, zero, high, e.scalars(x.dtype).constant(0));
}

/// The real signal whose spectrum has the given bins and their conjugates: (... x bins x 2) to (... x length x 1).
/// A bin that has a conjugate counts twice; the first, and for an even length the last, have none.
ConstantPtr realInverseMatrix(int64_t bins, int64_t length, v1::DataType dtype) {
  std::vector<double> values;
  for (int64_t bin = 0; bin < bins; ++bin) {
    const bool alone = bin == 0 || 2 * bin == length;
    const double weight = (alone ? 1.0 : 2.0) / static_cast<double>(length);
    for (const bool imaginary : {false, true}) {
      for (int64_t sample = 0; sample < length; ++sample) {
        const double turn = static_cast<double>((sample * bin) % length) / static_cast<double>(length);
        const double angle = 2 * std::numbers::pi * turn;
        values.push_back(imaginary ? -std::sin(angle) * weight : std::cos(angle) * weight);
      }
    }
  }
  return realConstant(dtype, {bins * 2, length}, values);
}

absl::StatusOr<Tensor> realFromOneSide(Node& n, Emitter& e, int64_t axis) {
  Tensor x = n.in(0);
  int64_t length = 2 * (x.shape[axis] - 1);
  if (n.has(1)) {
    TESSERA_ASSIGN_OR_RETURN(length, constantNumber(n, 1, "dft_length", 1));
  }
  const int64_t bins = length / 2 + 1;
  if (length < 1 || x.elements() == 0) {
    return n.invalid("the spectrum is empty", {.attribute = "input", .found = shapeText(x.shape)});
  }
  TESSERA_RETURN_IF_ERROR(checkTable(n, bins * 2, length));
  TESSERA_ASSIGN_OR_RETURN(x, resized(n, e, x, axis, bins));
  llvm::SmallVector<int64_t> exchange;
  for (int64_t d = 0; d < x.rank(); ++d) exchange.push_back(d);
  std::swap(exchange[axis], exchange[x.rank() - 2]);
  const Tensor spectrum = e.transpose(x, exchange);
  const int64_t rows = spectrum.elements() / (bins * 2);
  Shape shape = spectrum.shape;
  shape[shape.size() - 2] = length;
  shape.back() = 1;
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  const Tensor matrix = Emitter::wrap(realInverseMatrix(bins, length, x.dtype));
  const Tensor signal = product(e, e.reshape(spectrum, {rows, bins * 2}), matrix, false, false);
  return e.transpose(e.reshape(signal, shape), exchange);
}

Results lowerDft(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  Tensor x = n.in(0);
  const int64_t rank = x.rank();
  TESSERA_ASSIGN_OR_RETURN(const bool inverse, n.flag("inverse", false));
  TESSERA_ASSIGN_OR_RETURN(const bool onesided, n.flag("onesided", false));
  int64_t axis = n.opset() < 20 ? 1 : -2;
  if (n.opset() < 20) {
    TESSERA_ASSIGN_OR_RETURN(axis, n.integer("axis", 1));
  } else if (n.has(2)) {
    TESSERA_ASSIGN_OR_RETURN(const auto axes, n.constantIntegers(2, "axis"));
    if (axes.size() != 1) return n.invalid("the axis is not one integer", {.attribute = "axis", .accepted = "one"});
    axis = axes[0];
  }
  TESSERA_ASSIGN_OR_RETURN(axis, n.normalizeAxis(axis, rank, "axis"));
  const int64_t parts = x.shape.back();
  if (axis == rank - 1 || (parts != 1 && parts != 2)) {
    return n.invalid("the last dimension is not the parts of a number",
                     {.attribute = "input",
                      .found = shapeText(x.shape),
                      .accepted = "1 (real) or 2 (complex) as last dimension, and another axis"});
  }
  if (onesided && inverse != (parts == 2)) {
    return n.invalid(
        "one side of a complex signal, or of a real spectrum",
        {.attribute = "onesided", .found = "1", .accepted = "forward of real, inverse of complex numbers"});
  }
  if (onesided && inverse) {
    TESSERA_ASSIGN_OR_RETURN(Tensor real, realFromOneSide(n, e, axis));
    return {{std::move(real)}};
  }
  int64_t length = x.shape[axis];
  if (n.has(1)) {
    TESSERA_ASSIGN_OR_RETURN(length, constantNumber(n, 1, "dft_length", 1));
    TESSERA_ASSIGN_OR_RETURN(x, resized(n, e, x, axis, length));
  }
  if (length < 1 || x.elements() == 0) {
    return n.invalid("the signal is empty", {.attribute = "input", .found = shapeText(x.shape)});
  }
  // The axis goes next to the parts, and back afterwards: the exchange is its own inverse.
  llvm::SmallVector<int64_t> exchange;
  for (int64_t d = 0; d < rank; ++d) exchange.push_back(d);
  std::swap(exchange[axis], exchange[rank - 2]);
  TESSERA_ASSIGN_OR_RETURN(const Tensor bins, transform(n, e, e.transpose(x, exchange),
                                                        {length, parts, onesided ? length / 2 + 1 : length, inverse}));
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
  const Shape shape = {signal.shape[0], (signal.shape[1] - length) / step + 1, length, parts};
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, signal.dtype));
  Tensor frames = cutFrames(e, signal, windowed ? &n.in(2) : nullptr, shape, step);
  TESSERA_ASSIGN_OR_RETURN(Tensor bins,
                           transform(n, e, frames, {length, parts, onesided ? length / 2 + 1 : length, false}));
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
    // Rising, for the triangles below have a rising and a falling side.
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
      {"DFT", 17, 1, 3, lowerDft, kFloats},
      {"STFT", 17, 2, 4, lowerStft, kFloats},
      {"MelWeightMatrix", 17, 5, 5, lowerMelWeightMatrix, kIntegers},
  };
}

}  // namespace tessera::compiler
