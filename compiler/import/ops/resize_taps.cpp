#include "compiler/import/ops/resize_taps.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace tessera::compiler {
namespace {

/// Returns the input coordinate of element `at` of the result (ONNX, Resize).
double sourceCoordinate(const ResizeMode& mode, double at, double input, double output, double scale, size_t dim) {
  // Scales come in single precision and mostly from two lengths. If they match, the lengths are used, and the resized
  // length is an integer. Multiplying by the lengths first gives exact integers and halves, so that the nearest element
  // is that of exact arithmetic.
  const bool whole = static_cast<float>(scale) == static_cast<float>(output / input);
  const double resized = whole ? output : input * scale;
  auto scaledBack = [&](double place) {
    if (whole) return place * input / resized;
    // Rounds the quotient to single precision, so that quotients by a decimal scale that are integers stay integers.
    const bool picks = mode.interpolation == Interpolation::kNearest;
    return picks ? static_cast<double>(static_cast<float>(place / shortestDecimal(scale))) : place / scale;
  };
  switch (mode.coordinates) {
    case Coordinates::kHalfPixel:
      return scaledBack(at + 0.5) - 0.5;
    case Coordinates::kPytorchHalfPixel:
      return output > 1 ? scaledBack(at + 0.5) - 0.5 : 0;
    case Coordinates::kAlignCorners:
      // The last element maps to the input's last one for any scale: lengths are integers, rounded down.
      return output == 1 ? 0 : at * (input - 1) / (output - 1);
    case Coordinates::kAsymmetric:
      return scaledBack(at);
    case Coordinates::kTfHalfPixelForNn:
      return scaledBack(at + 0.5);
    case Coordinates::kTfCropAndResize: {
      const double start = mode.region[dim], end = mode.region[mode.region.size() / 2 + dim];
      if (output <= 1) return 0.5 * (start + end) * (input - 1);
      return start * (input - 1) + at * (end - start) * (input - 1) / (output - 1);
    }
    case Coordinates::kHalfPixelSymmetric:
      // Both ends share the remainder of rounding the length down.
      return input / 2 * (1 - output / resized) + scaledBack(at + 0.5) - 0.5;
  }
  return 0;
}

double nearest(Rounding rounding, double at) {
  switch (rounding) {
    case Rounding::kRoundPreferFloor:
      return std::ceil(at - 0.5);
    case Rounding::kRoundPreferCeil:
      return std::floor(at + 0.5);
    case Rounding::kFloor:
      return std::floor(at);
    case Rounding::kCeil:
      return std::ceil(at);
  }
  return at;
}

/// Keys, "Cubic convolution interpolation for digital image processing", for the neighbours -1, 0, 1, 2.
std::array<double, 4> cubicWeights(double t, double a) {
  auto near = [a](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [a](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

}  // namespace

double shortestDecimal(double scale) {
  std::array<char, 32> digits = {};
  const auto written = std::to_chars(digits.begin(), digits.end(), static_cast<float>(scale));
  double meant = scale;
  std::from_chars(digits.begin(), written.ptr, meant);
  return meant;
}

int64_t Taps::repetition(int64_t input) const {
  // A repetition reads one element for each result, in equal runs.
  if (width() != 1 || outside || outputs() % input != 0) return 0;
  const int64_t k = outputs() / input;
  for (int64_t o = 0; o < outputs(); ++o) {
    if (index[0][o] != o / k) return 0;
  }
  return k;
}

namespace {

/// Returns the weight at a distance from the coordinate, in elements of the result.
double kernelWeight(const ResizeMode& mode, double distance) {
  distance = std::abs(distance);
  if (mode.interpolation == Interpolation::kLinear) return std::max(0.0, 1 - distance);
  const double a = mode.cubic_a;
  if (distance < 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
  return distance < 2 ? ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a : 0;
}

/// Lets taps of weight 0 read the element of another tap: a NaN or infinity next to the coordinate must not affect the
/// result.
Taps withoutIdleReads(Taps taps) {
  for (int64_t o = 0; o < taps.outputs(); ++o) {
    size_t counted = 0;
    while (counted + 1 < taps.width() && taps.weight[counted][o] == 0) ++counted;
    for (size_t t = 0; t < taps.width(); ++t) {
      if (taps.weight[t][o] == 0) taps.index[t][o] = taps.index[counted][o];
    }
  }
  return taps;
}

/// Returns the taps of a dimension that shrinks, with a kernel 1 / scale times as wide, so that every input element
/// counts. Weights are normalized to a sum of 1. Elements outside the input are left out if `exclude_outside`, else
/// replaced by the nearest element.
template <typename Coordinate>
Taps filteredTaps(const ResizeMode& mode, int64_t input, int64_t output, double scale, Coordinate coordinate) {
  // The kernel of a shrinking dimension is wider, by the scale.
  const double reach = (mode.interpolation == Interpolation::kLinear ? 1.0 : 2.0) / scale;
  const auto width = static_cast<int64_t>(std::ceil(2 * reach)) + 1;
  Taps taps;
  for (int64_t o = 0; o < output; ++o) {
    const double at = coordinate(o);
    // The first element within reach.
    const auto first = static_cast<int64_t>(std::ceil(at - reach));
    std::vector<double> weights;
    double total = 0;
    for (int64_t t = 0; t < width; ++t) {
      const int64_t place = first + t;
      // Elements outside count only if they stand for the nearest ones.
      const bool out = mode.exclude_outside && (place < 0 || place >= input);
      weights.push_back(out ? 0 : kernelWeight(mode, (static_cast<double>(place) - at) * scale));
      total += weights.back();
    }
    taps.index.resize(width);
    taps.weight.resize(width);
    for (int64_t t = 0; t < width; ++t) {
      taps.index[t].push_back(std::clamp<int64_t>(first + t, 0, input - 1));
      taps.weight[t].push_back(total == 0 ? 0 : weights[t] / total);
    }
  }
  return withoutIdleReads(std::move(taps));
}

}  // namespace

Taps resizeTaps(const ResizeMode& mode, int64_t input, int64_t output, double scale, size_t dim) {
  const double last = static_cast<double>(input - 1);
  auto coordinate = [&](int64_t o) {
    const double at = sourceCoordinate(mode, static_cast<double>(o), static_cast<double>(input),
                                       static_cast<double>(output), scale, dim);
    // An adversarial region may lead anywhere: beyond these bounds every neighbour is an edge element anyway.
    return std::isnan(at) ? 0.0 : std::clamp(at, -4.0, last + 4.0);
  };
  // A dimension that keeps its size and position has one tap per element, for any interpolation.
  bool identity = input == output;
  for (int64_t o = 0; identity && o < output; ++o) identity = coordinate(o) == static_cast<double>(o);
  const Interpolation interpolation = identity ? Interpolation::kNearest : mode.interpolation;
  const bool crops = mode.coordinates == Coordinates::kTfCropAndResize && !identity;
  if (mode.antialias && scale < 1 && interpolation != Interpolation::kNearest && !crops) {
    return filteredTaps(mode, input, output, scale, coordinate);
  }

  Taps taps;
  const size_t width = interpolation == Interpolation::kNearest ? 1 : interpolation == Interpolation::kLinear ? 2 : 4;
  taps.index.resize(width);
  taps.weight.resize(width);
  if (crops) taps.outside.emplace();
  for (int64_t o = 0; o < output; ++o) {
    const double at = coordinate(o);
    const double below = interpolation == Interpolation::kNearest ? nearest(mode.rounding, at) : std::floor(at);
    std::array<double, 4> weights = {1, 0, 0, 0};
    if (interpolation == Interpolation::kLinear) weights = {1 - (at - below), at - below, 0, 0};
    if (interpolation == Interpolation::kCubic) weights = cubicWeights(at - below, mode.cubic_a);
    const int64_t first = static_cast<int64_t>(below) - (interpolation == Interpolation::kCubic ? 1 : 0);
    double total = 0;
    for (size_t t = 0; t < width; ++t) {
      const int64_t neighbour = first + static_cast<int64_t>(t);
      const bool excluded =
          mode.exclude_outside && interpolation == Interpolation::kCubic && (neighbour < 0 || neighbour >= input);
      if (excluded) weights[t] = 0;
      total += weights[t];
    }
    const bool beyond = crops && (at < 0 || at > last);
    for (size_t t = 0; t < width; ++t) {
      const double weight = mode.exclude_outside && total != 0 ? weights[t] / total : weights[t];
      taps.index[t].push_back(std::clamp<int64_t>(first + static_cast<int64_t>(t), 0, input - 1));
      taps.weight[t].push_back(beyond ? 0 : weight);
    }
    if (taps.outside) taps.outside->push_back(beyond ? mode.extrapolation : 0);
  }
  return withoutIdleReads(std::move(taps));
}

}  // namespace tessera::compiler
