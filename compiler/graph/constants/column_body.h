#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {

/// Values of one SSA value of a body at consecutive points of one loop. Floating point of up to 32 bits
/// is held as float and rounded to its own type after each operation; integers are sign-extended.
struct Column {
  std::vector<float> f32;
  std::vector<double> f64;
  std::vector<int64_t> integer;
};

/// The body of a linalg operation, translated once and then run on columns of up to kColumn points, the
/// way vectorized database engines evaluate expressions. That makes it fast enough for weights of any size.
class ColumnBody {
 public:
  static constexpr int64_t kColumn = 1024;

  /// Nothing if the body holds an operation that has no column form.
  static std::optional<ColumnBody> translate(mlir::linalg::LinalgOp op);

  /// Whether the body asks for the position in a loop.
  bool readsLoops() const { return !loops_.empty(); }

  /// Reads `count` elements of argument `index` from memory, `stride` elements apart.
  void load(unsigned index, const char* data, int64_t stride, int64_t count);
  /// Sets the value of loop `loop` at the first point; `step` per point.
  void setLoop(unsigned loop, int64_t first, int64_t step, int64_t count);
  void run(int64_t count);
  /// Writes yielded value `index`.
  void store(unsigned index, char* data, int64_t stride, int64_t count) const;

 private:
  using Instruction = std::function<void(std::vector<Column>&, int64_t count)>;
  friend class BodyTranslator;

  std::vector<Column> columns_;
  std::vector<mlir::Type> argument_types_;
  std::vector<mlir::Type> yield_types_;
  std::vector<int> yields_;                      // columns
  std::vector<std::pair<unsigned, int>> loops_;  // linalg.index: loop, column
  std::vector<Instruction> instructions_;
};

}  // namespace tessera::compiler
