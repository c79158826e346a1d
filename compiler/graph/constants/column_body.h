#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {

/// The values of one SSA value of a body at consecutive points of one loop. Floats of up to 32 bits are held as float
/// and rounded to their type after each operation; integers are sign-extended.
struct Column {
  std::vector<float> f32;
  std::vector<double> f64;
  std::vector<int64_t> integer;
};

/// The body of a linalg operation, translated once and evaluated on columns of up to kColumn points, as vectorized
/// database engines evaluate expressions. This is fast enough for weights of any size.
class ColumnBody {
 public:
  static constexpr int64_t kColumn = 1024;

  /// Returns nothing if the body holds an operation without a column form.
  static std::optional<ColumnBody> translate(mlir::linalg::LinalgOp op);

  /// Whether the body reads a loop index.
  bool readsLoops() const { return !loops_.empty(); }

  /// Reads `count` elements of argument `index` from memory, `stride` elements apart.
  void load(unsigned index, const char* data, int64_t stride, int64_t count);
  /// Sets the index of loop `loop`: `first` at the first point, `step` more at each next one.
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
