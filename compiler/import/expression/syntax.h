#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

/// Tensor expressions: a text form of Out(idx) = Accum(Op(In1(idx1), ...), loops), which is definition 1 of the thesis
/// (cited in full in clients/docs/design/references.md). Several of them form a DAG by using each other's results
/// (definition 2).
///
///   param   R = 3;                                    // a named integer
///   input   Img[N, C, H, W], Weight[K, C, R, R]: f32; // extents without a value are bound by --shape
///   Conv[n, k, p, q] += Img[n, c, p + r, q + s] * Weight[k, c, r, s];
///   Relu[n, k, p, q] = Conv[n, k, p, q] >= 0 ? Conv[n, k, p, q] : 0;
///   output  Relu;                                     // default: tensors that no statement reads
///
/// Loops and their extents follow from the subscripts (bounds.h); `where p < H, q < W` after a statement states extents
/// that cannot be inferred. Variables that occur only on the right are reduced: += *= max= min=, or
/// sum/prod/max/min(..., axis = (r, s)) around the whole right side. Subscripts may use + - * / % with constants (/ and
/// % are floor division and its remainder). A read under a condition (?:) may lie outside its tensor if the condition
/// is false.
namespace tessera::compiler::expression {

/// A place in the text; line and column count from 1.
struct Position {
  int line = 1, column = 1;
};

enum class Kind {
  kNumber,     ///< `number`, written with a point or exponent when `real`
  kName,       ///< an index variable or a param
  kAccess,     ///< name[children...]
  kUnary,      ///< name is "-" or "!"
  kBinary,     ///< name is the operator
  kCondition,  ///< children: condition, then, else
  kCall        ///< name(children...): a function or a cast to a type
};

struct Node {
  Kind kind = Kind::kNumber;
  Position at;
  std::string name;
  double number = 0;
  bool real = false;
  std::vector<std::unique_ptr<Node>> children;
};
using NodePtr = std::unique_ptr<Node>;

struct Param {
  std::string name;
  NodePtr value;
};
struct Input {
  std::string name;
  Position at;
  std::vector<NodePtr> shape;
  v1::DataType dtype = v1::DATA_TYPE_F32;
};
enum class Accumulation { kNone, kSum, kProduct, kMax, kMin };
struct Bound {
  std::string variable;
  Position at;
  NodePtr extent;  ///< variable < extent
};
struct Statement {
  std::string name;
  Position at;
  std::vector<std::string> indices;
  Accumulation accumulation = Accumulation::kNone;
  std::vector<std::string> axes;  ///< of sum(..., axis = ...); empty: inferred
  NodePtr value;
  std::vector<Bound> bounds;
};
struct Program {
  std::vector<Param> params;
  std::vector<Input> inputs;
  std::vector<Statement> statements;
  std::vector<std::string> outputs;
};

inline constexpr size_t kMaxTextBytes = 1 << 20;
inline constexpr int kMaxNesting = 100;
inline constexpr size_t kMaxStatements = 10'000;

/// Parses a text. INVALID_MODEL names line and column, the token found and the tokens accepted.
absl::StatusOr<Program> parse(std::string_view text);

/// Returns INVALID_MODEL at a place of the text.
absl::Status errorAt(Position at, const std::string& message, const std::string& found = "",
                     const std::string& accepted = "");

/// Parses the type names of inputs and casts: "f32", "i64", ...
std::optional<v1::DataType> typeOfName(std::string_view name);

/// The name that typeOfName() reads; empty if the language has no such type.
std::string nameOfType(v1::DataType dtype);

}  // namespace tessera::compiler::expression
