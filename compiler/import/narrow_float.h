#pragma once

#include "compiler/import/scalars.h"

/// Converts between f32 and floats of 4 and 8 bits (element_type.h) by integer arithmetic on their bits, so targets
/// need no instructions for them.
namespace tessera::compiler {

/// How a conversion to a narrow float treats values that it cannot represent. The defaults are those of ONNX's Cast.
struct NarrowRounding {
  bool saturate = true;                      ///< beyond the largest number: that number, else infinity or NaN
  enum { kUp, kDown, kNearest } mode = kUp;  ///< of f8e8m0; all others round half to even
};

/// Returns the f32 value of element x of the narrow float type `s.type`.
mlir::Value decodeNarrow(const Scalars& s, mlir::Value x);

/// Returns the element of type `to` nearest to x, an f32.
mlir::Value encodeNarrow(const Scalars& s, mlir::Value x, v1::DataType to, NarrowRounding rounding);

}  // namespace tessera::compiler
