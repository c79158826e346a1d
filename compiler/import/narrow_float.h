#pragma once

#include "compiler/import/scalars.h"

/// Conversion between f32 and the floats of 4 and 8 bits (element_type.h), by integer arithmetic on their bits: targets
/// need no instructions for them.
namespace tessera::compiler {

/// How a conversion to a narrow float treats what it cannot represent; the defaults are those of ONNX's Cast.
struct NarrowRounding {
  bool saturate = true;                      ///< beyond the largest number: that number, else infinity or NaN
  enum { kUp, kDown, kNearest } mode = kUp;  ///< of f8e8m0; all others round half to even
};

/// The f32 that element x of the narrow float type `s.type` stands for.
mlir::Value decodeNarrow(const Scalars& s, mlir::Value x);

/// The element of type `to` nearest to x, an f32.
mlir::Value encodeNarrow(const Scalars& s, mlir::Value x, v1::DataType to, NarrowRounding rounding);

}  // namespace tessera::compiler
