#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/target.pb.h"

/// Instructions and operators in one form: a loop nest over tensors with affine accesses (AMOS; thesis, chapter 5; both
/// are cited in full in clients/docs/design/references.md). Plain values, no MLIR.
namespace tessera::compiler::intrinsic {

using Form = v1::Intrinsic::Arithmetic::Form;

/// A software iteration, or an iteration of an instruction.
struct Loop {
  std::string name;
  int64_t extent = 1;      ///< number of iterations
  bool reduction = false;  ///< does not index the destination
};

/// constant + sum of coefficient * loop.
struct Subscript {
  struct Term {
    int loop = 0;  ///< position in Nest::loops
    int64_t coefficient = 1;
  };
  std::vector<Term> terms;  ///< each loop once
  int64_t constant = 0;

  int64_t coefficientOf(int loop) const;
  int64_t at(const std::vector<int64_t>& point) const;
};

struct Access {
  std::string name;
  v1::DataType dtype = v1::DATA_TYPE_F32;
  std::vector<Subscript> subscripts;

  bool uses(int loop) const;
};

/// accesses[0] (form) accesses[1] * accesses[2] * ..., for all points of the loops at which every bound is negative.
struct Nest {
  std::string name;
  Form form = v1::Intrinsic::Arithmetic::MULTIPLY_ADD;
  std::vector<Loop> loops;
  std::vector<Access> accesses;   ///< destination first
  std::vector<Subscript> bounds;  ///< must be < 0: i + 2 r < 16 is stored as i + 2 r - 16. Of instructions only

  int loopNamed(const std::string& wanted) const;  ///< -1 if there is none
};

/// The product, or INT64_MAX on overflow: descriptions of chips are untrusted.
int64_t saturatedProduct(int64_t left, int64_t right);

/// The shape of the smallest tensor that contains every access; -1 for subscripts that can be negative.
std::vector<int64_t> shapeOf(const Nest& nest, const Access& access);

/// Parses "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", given the extents of the loops in the order of
/// their first occurrence; loops that do not index the destination are reductions. Use `=` for MULTIPLY, and `+=` with
/// one source for ADD. Fails with INVALID_ARGUMENT naming the text found.
absl::StatusOr<Nest> parseNest(const std::string& name, const std::string& text, const std::vector<int64_t>& extents);

/// The text form that parseNest accepts.
std::string print(const Nest& nest);

/// The compute abstraction (definition 3) of an instruction that validateTarget accepts; an instruction without
/// arithmetic (an old description) multiplies and adds.
absl::StatusOr<Nest> nestOf(const v1::Intrinsic& intrinsic);

/// A nest of a model. Fails with FAILED_PRECONDITION if the nest has an obstacle.
absl::StatusOr<Nest> nestOf(const v1::OperatorNest& described);

}  // namespace tessera::compiler::intrinsic
