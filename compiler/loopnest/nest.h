#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/loopnest/subscript.h"
#include "tessera/v1/tensor.pb.h"

/// Loop nests: what operators, chains of operators and instructions compute, in one form (definitions 1 to 3 of the
/// thesis; clients/docs/design/references.md cites it). Plain values, no MLIR.
///
/// A nest has one loop space, which its statements share. A tensor that one statement writes and a later one reads
/// feeds the later one; a loop that both have is one loop:
///
///   C[m, l] += A[m, k] * B[k, l]      statement 0 runs over m, l, k
///   E[m, n] += C[m, l] * D[l, n]      statement 1 runs over m, n, l
///
/// Here l is a parallel loop of statement 0 and a reduction of statement 1.
namespace tessera::compiler::loopnest {

struct Loop {
  std::string name;
  int64_t extent = 1;      ///< number of iterations
  int64_t min_tile = 1;    ///< smallest tile that the instructions of a leaf accept
  bool whole = false;      ///< never cut into tiles: loops of convolution windows, rows of a normalization
  int64_t multiple = 1;    ///< tiles are multiples of it (or the whole extent): vectors, register tiles
  int64_t min_extent = 0;  ///< smallest extent at run time, if it varies; 0: every run has the whole extent
};

/// A tensor, read or written through one subscript per dimension. Accesses of the same name belong to one tensor.
struct Access {
  std::string name;
  std::vector<Subscript> subscripts = {};
  v1::DataType dtype = v1::DATA_TYPE_F32;

  bool uses(int loop) const;
};

/// One operation of a body on earlier values. Value v is the statement's input v for v < number of inputs, otherwise
/// the result of operation v - number of inputs.
struct Operation {
  std::string name;                ///< of the table in body.h: "mul", "exp", "constant", ...
  std::vector<int> operands = {};  ///< values
  double constant = 0;             ///< of a "constant"
  bool operator==(const Operation&) const = default;
};

/// How the values of all iterations that write one element become its content.
enum class Combine { kAssign, kSum, kProduct, kMaximum, kMinimum };

/// The computation of one iteration.
struct Body {
  Combine combine = Combine::kAssign;
  bool keeps = false;   ///< combines with the element's old content, too; otherwise the old content is dropped
  bool opaque = false;  ///< not described: only inputs, output and flops are known
  std::vector<Operation> operations = {};  ///< the value is the last one's; empty: input 0
  double flops = 2;  ///< of one iteration, as if done by vector multiply-adds: fewer if an instruction is faster
};

/// One operator: output (combine) body(inputs) at all points of its loops.
struct Statement {
  std::string name;
  std::vector<int> loops = {};   ///< positions in Nest::loops, in any order
  std::vector<int> inputs = {};  ///< positions in Nest::accesses
  int output = 0;                ///< position in Nest::accesses
  Body body = {};
};

/// Statements in execution order, in one loop space.
struct Nest {
  std::string name;
  std::vector<Loop> loops = {};
  std::vector<Access> accesses = {};  ///< shared by statements that access a tensor in the same way
  std::vector<Statement> statements = {};
  /// The statements run where every bound is negative: i + 2 r < 16 is stored as i + 2 r - 16.
  std::vector<Subscript> bounds = {};

  /// The position of a loop, -1 if there is none of this name.
  int loopNamed(const std::string& wanted) const;
  /// Whether `loop` occurs in a subscript of the access.
  bool uses(int access, int loop) const { return accesses[static_cast<size_t>(access)].uses(loop); }
  /// Whether the statement runs over `loop` and its output is not indexed by it.
  bool isReduction(int loop, size_t statement = 0) const;
  /// Whether one statement writes the access and a later one reads it.
  bool isIntermediate(int access) const;
  bool isAffine() const;  ///< no subscript and no bound has a digit
  std::vector<int64_t> extents() const;
};

/// Returns OK, or INVALID_ARGUMENT naming the nest and the loop, tensor or statement at fault: an extent below 1, a
/// position out of range, a digit with a divisor below 1, a statement that accesses a tensor by a loop that is not
/// among its own, a tensor of two ranks or types, an operation on a value that comes later.
absl::Status validate(const Nest& nest);

/// The shape of the smallest tensor that contains every access; -1 for subscripts that can be negative.
std::vector<int64_t> shapeOf(const Nest& nest, const Access& access);

/// An affine access as one element offset into the row-major array of shapeOf(): constant + sum of strides[l] * loop l.
struct Offset {
  std::vector<int64_t> strides;  ///< elements, one per loop of the nest; 0: the loop does not move the access
  int64_t constant = 0;
};
Offset offsetOf(const Nest& nest, const Access& access);

/// The product, or INT64_MAX on overflow: descriptions of chips are untrusted. Factors are not negative.
int64_t saturatedProduct(int64_t left, int64_t right);

/// Parses statements separated by ';' or line ends, given the extents of the loops in the order of their first
/// occurrence:
///
///   O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]
///
/// The syntax is that of a statement in a tensor expression file: + - * / between accesses, numbers and calls
/// (exp(x), max(x, y); body.h lists them), subscripts as in parseSubscript(). `+=`, `*=`, `max=` and `min=` combine
/// with the old content. `=` drops it; the value is summed over the loops that do not index the output, unless
/// `max(...)`, `min(...)` or `prod(...)` is around the whole right side. Element types are f32. Fails with
/// INVALID_ARGUMENT naming the text found.
absl::StatusOr<Nest> parse(const std::string& name, const std::string& text, const std::vector<int64_t>& extents);

/// The statements in the syntax of parse(), separated by "; "; an opaque body is printed as a call: "S = softmax(C)".
std::string print(const Nest& nest);

}  // namespace tessera::compiler::loopnest
