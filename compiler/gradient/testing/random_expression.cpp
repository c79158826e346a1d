#include "compiler/gradient/testing/random_expression.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::compiler::gradient::testing {
namespace {

/// The text of a subscript, and the range of its values.
struct Sum {
  std::string text;
  int low = 0, high = 0;
};

int floorDivision(int x, int y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  RandomExpression run() {
    switch (pick(0, 5)) {
      case 0:
        return convolution();
      case 1:
        return transposed();
      case 2:
        return depthToSpace();
      default:
        return general();
    }
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  /// A convolution with groups, stride, dilation and padding in each dimension, or a pooling without weights.
  RandomExpression convolution() {
    const int dims = pick(1, 2), groups = pick(1, 2), channels = pick(1, 2), filters = pick(1, 3);
    std::string image, weights, results, condition, image_shape, weight_shape, bounds;
    for (int d = 0; d < dims; ++d) {
      const int kernel = pick(1, 3), stride = pick(1, 3), dilation = pick(1, 2), pad = pick(0, kernel - 1);
      const int size = std::max(pick(3, 7), (kernel - 1) * dilation + 1);
      const int result = (size + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
      const std::string at = absl::StrCat(stride, " * p", d, " + ", dilation, " * r", d, pad > 0 ? " - " : " + ", pad);
      absl::StrAppend(&image, ", ", at);
      absl::StrAppend(&weights, ", r", d);
      absl::StrAppend(&results, ", p", d);
      absl::StrAppend(&image_shape, ", ", size);
      absl::StrAppend(&weight_shape, ", ", kernel);
      absl::StrAppend(&bounds, ", p", d, " < ", result, ", r", d, " < ", kernel);
      absl::StrAppend(&condition, d > 0 ? " && " : "", at, " >= 0 && ", at, " < ", size);
    }
    const bool pools = chance(25);
    RandomExpression made{.text = {}, .family = pools ? "pooling" : "convolution"};
    const std::string read = absl::StrCat("X[g, c", image, "]");
    const std::string product = pools ? read : absl::StrCat(read, " * W[g, k, c", weights, "]");
    made.text = absl::StrCat("input X[", groups, ", ", channels, image_shape, "], W[", groups, ", ", filters, ", ",
                             channels, weight_shape, "];\n");
    if (pools) {
      made.polynomial = chance(50);
      absl::StrAppend(&made.text, "Y[g, c", results, "] ", made.polynomial ? "+=" : "max=", " ", condition, " ? ",
                      product, made.polynomial ? " : 0" : " : -1000", " where g < ", groups, bounds, ";\n");
    } else {
      absl::StrAppend(&made.text, "Y[g, k", results, "] += ", condition, " ? ", product, " : 0 where g < ", groups,
                      ", c < ", channels, ", k < ", filters, bounds, ";\n");
    }
    return made;
  }

  RandomExpression transposed() {
    const int stride = pick(1, 3), kernel = pick(1, 4), size = pick(2, 5), pad = pick(0, 1);
    const int result = (size - 1) * stride + kernel - pad;
    const std::string at = absl::StrCat("(i - r + ", pad, ")");
    return {.text = absl::StrCat("input X[2, ", size, "], W[3, 2, ", kernel, "];\nY[k, i] += ", at, " % ", stride,
                                 " == 0 && ", at, " >= 0 && ", at, " / ", stride, " < ", size, " ? X[c, ", at, " / ",
                                 stride, "] * W[k, c, r] : 0 where i < ", std::max(1, result), ", r < ", kernel, ";\n"),
            .family = "transposed"};
  }

  RandomExpression depthToSpace() {
    const int block = pick(2, 3), channels = pick(1, 2), height = pick(1, 3), width = pick(1, 3);
    const std::string c = chance(50)
                              ? absl::StrCat("c + (p % ", block, " * ", block, " + q % ", block, ") * ", channels)
                              : absl::StrCat("c * ", block * block, " + p % ", block, " * ", block, " + q % ", block);
    return {.text = absl::StrCat("input X[", channels * block * block, ", ", height, ", ", width, "], S[", channels,
                                 "];\nY[c, p, q] = S[c] * X[", c, ", p / ", block, ", q / ", block, "] where c < ",
                                 channels, ", p < ", height * block, ", q < ", width * block, ";\n"),
            .family = "depth to space"};
  }

  /// Reads with any quasi-affine subscripts of two to four loops.
  RandomExpression general() {
    RandomExpression made{.text = {}, .family = "quotients", .polynomial = chance(65)};
    loops_.clear();
    const int count = pick(2, 4);
    for (int l = 0; l < count; ++l)
      loops_.emplace_back(std::string(1, static_cast<char>('i' + l)), pick(1, count > 3 ? 4 : 6));
    int tensors = pick(1, 3);
    std::string declarations, value;
    for (int t = 0; t < tensors; ++t) {
      const std::string name(1, static_cast<char>('A' + t));
      const std::string read = readOf(name, declarations);
      const std::string factor = made.polynomial ? polynomialOf(read) : functionOf(read);
      const char* op = made.polynomial ? (chance(70) ? " * " : " + ")
                                       : (chance(40)   ? " * "
                                          : chance(50) ? " / "
                                                       : " + ");
      value = value.empty() ? factor : absl::StrCat(chance(30) ? absl::StrCat("(", value, ")") : value, op, factor);
    }
    if (chance(20)) {
      const std::string& i = loops_[0].first;
      value =
          absl::StrCat(i, " * 2 + ", loops_[1].first, " < ", pick(1, 8), " ? ", value, " : ", chance(50) ? "0" : "A0");
      value = value.ends_with("A0") ? value.substr(0, value.size() - 2) + "3" : value;
    }
    std::vector<std::string> indices, bounds;
    bool reduces = false;
    for (const auto& [name, extent] : loops_) {
      bounds.push_back(absl::StrCat(name, " < ", extent));
      if (chance(60)) {
        indices.push_back(name);
      } else {
        reduces = true;
      }
    }
    std::shuffle(indices.begin(), indices.end(), random_);
    // Each loop must occur on the right side.
    for (const auto& [name, extent] : loops_) value = absl::StrCat(value, " + 0 * f32(", name, ")");
    const char* accumulation = !reduces ? "=" : "+=";
    if (reduces && chance(15)) {
      accumulation = "*=";
      made.polynomial = false;  // one, but its values are beyond exact doubles
    }
    if (reduces && !made.polynomial && chance(30)) accumulation = chance(50) ? "max=" : "min=";
    made.text = absl::StrCat("input ", declarations, ";\nY[", absl::StrJoin(indices, ", "), "] ", accumulation, " ",
                             value, " where ", absl::StrJoin(bounds, ", "), ";\n");
    if (chance(20)) appendConsumer(made, indices);
    return made;
  }

  /// A second statement, so that the gradient of Y is a sum.
  void appendConsumer(RandomExpression& made, const std::vector<std::string>& indices) const {
    const std::string y = absl::StrCat("Y[", absl::StrJoin(indices, ", "), "]");
    const std::string first = indices.empty() ? "" : indices[0];
    absl::StrAppend(&made.text, "Z[", first, "] += ", y, " * ", y, " - 3 * ", y, ";\noutput Y, Z;\n");
    if (indices.size() < 2) made.text.replace(made.text.rfind("+="), 2, "=");
  }

  /// A read of a new tensor; its extents are those that the subscripts reach, or a little more.
  std::string readOf(const std::string& name, std::string& declarations) {
    std::vector<std::string> subscripts, shape;
    const int rank = pick(1, 3);
    for (int d = 0; d < rank; ++d) {
      const Sum sum = subscript();
      subscripts.push_back(sum.low == 0 ? sum.text
                                        : absl::StrCat(sum.text, sum.low < 0 ? " + " : " - ", std::abs(sum.low)));
      shape.push_back(absl::StrCat(sum.high - sum.low + 1 + (chance(30) ? pick(1, 2) : 0)));
      // The partner of a quotient.
      if (!partner_.text.empty() && chance(60) && d + 1 < rank) {
        subscripts.push_back(partner_.text);
        shape.push_back(absl::StrCat(partner_.high + 1));
        ++d;
      }
      partner_ = {};
    }
    absl::StrAppend(&declarations, declarations.empty() ? "" : ", ", name, "[", absl::StrJoin(shape, ", "), "]");
    return absl::StrCat(name, "[", absl::StrJoin(subscripts, ", "), "]");
  }

  Sum linear() {
    Sum sum;
    const int terms = pick(1, 2);
    for (int t = 0; t < terms; ++t) {
      const auto& [name, extent] = loops_[static_cast<size_t>(pick(0, static_cast<int>(loops_.size()) - 1))];
      const int factor = chance(60) ? 1 : chance(70) ? pick(2, 3) : -pick(1, 2);
      sum.text = sum.text.empty() ? absl::StrCat(factor, " * ", name)
                                  : absl::StrCat(sum.text, factor < 0 ? " - " : " + ", std::abs(factor), " * ", name);
      (factor > 0 ? sum.high : sum.low) += factor * (extent - 1);
    }
    if (chance(25)) {
      const int constant = pick(1, 3);
      absl::StrAppend(&sum.text, " + ", constant);
      sum.low += constant;
      sum.high += constant;
    }
    return sum;
  }

  Sum subscript() {
    Sum sum = linear();
    if (chance(55)) return sum;
    const int divisor = pick(2, 4);
    Sum remainder{absl::StrCat("(", sum.text, ") % ", divisor), 0, divisor - 1};
    if (chance(35)) return remainder;
    Sum quotient{absl::StrCat("(", sum.text, ") / ", divisor), floorDivision(sum.low, divisor),
                 floorDivision(sum.high, divisor)};
    if (chance(20)) {
      // Digits of digits, as of a channel that is cut into three parts.
      return {absl::StrCat(quotient.text, " % 2"), 0, 1};
    }
    partner_ = remainder;
    if (chance(25)) {
      const Sum other = linear();
      partner_ = {};
      return {absl::StrCat(quotient.text, " + ", other.text), quotient.low + other.low, quotient.high + other.high};
    }
    return quotient;
  }

  std::string polynomialOf(const std::string& read) {
    if (chance(10)) return absl::StrCat(read, " * ", read);
    if (chance(15)) return absl::StrCat("(", read, " - ", pick(1, 3), ")");
    return read;
  }

  std::string functionOf(const std::string& read) {
    static const char* const kFunctions[] = {"exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos", "abs"};
    switch (pick(0, 4)) {
      case 0:
        return absl::StrCat(kFunctions[pick(0, 8)], "(", read, ")");
      case 1:
        return absl::StrCat("max(", read, ", 1.01)");
      case 2:
        return absl::StrCat("(", read, " > 0.97 ? ", read, " * 2.0 : exp(", read, "))");
      case 3:
        return absl::StrCat("pow(", read, ", 1.5)");
      default:
        return read;
    }
  }

  std::mt19937_64 random_;
  std::vector<std::pair<std::string, int>> loops_;
  Sum partner_;
};

}  // namespace

RandomExpression randomExpression(uint64_t seed) { return Generator(seed).run(); }

}  // namespace tessera::compiler::gradient::testing
