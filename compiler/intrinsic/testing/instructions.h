#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/intrinsic/nest.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/target.h"

namespace tessera::compiler::intrinsic::testing {

inline v1::Intrinsic instruction(const std::string& text) {
  v1::Intrinsic intrinsic;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &intrinsic)) << text;
  return intrinsic;
}

inline v1::Intrinsic builtinInstruction(const std::string& target, const std::string& name) {
  for (v1::Intrinsic& intrinsic : instructionsOf(*findBuiltinTarget(target))) {
    if (intrinsic.name() == name) return intrinsic;
  }
  ADD_FAILURE() << target << " has no " << name;
  return {};
}

/// The thesis's simplified Tensor Core of 2x2x2 (figure 5.2); b is stored by columns.
inline v1::Intrinsic smallMatrixUnit() {
  return instruction(R"(
    name: "mma.2x2x2" emit: "mma" arithmetic { form: MULTIPLY_ADD }
    iterations { name: "i" extent: 2 } iterations { name: "j" extent: 2 }
    iterations { name: "r" extent: 2 reduction: true }
    operands { name: "c" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "j" }
    operands { name: "a" dtype: DATA_TYPE_I8 subscripts: "i" subscripts: "r" }
    operands { name: "b" dtype: DATA_TYPE_I8 subscripts: "r" subscripts: "j" }
    transfers { operand: "a" from: "memory" to: "shared" strides: "free" strides: "1" }
    transfers { operand: "a" from: "shared" to: "registers" strides: "free" strides: "1" }
    transfers { operand: "b" from: "memory" to: "shared" strides: "1" strides: "free" }
    transfers { operand: "b" from: "shared" to: "registers" strides: "1" strides: "free" }
    transfers { operand: "c" from: "registers" to: "shared" strides: "free" strides: "1" }
    transfers { operand: "c" from: "shared" to: "memory" strides: "free" strides: "1" })");
}

/// Scales vectors of three lanes: an extent that divides few others.
inline v1::Intrinsic smallAxpy() {
  return instruction(R"(
    name: "axpy.3" emit: "axpy" arithmetic { form: MULTIPLY_ADD } iterations { name: "i" extent: 3 }
    operands { name: "y" dtype: DATA_TYPE_I32 subscripts: "i" }
    operands { name: "x" dtype: DATA_TYPE_I32 subscripts: "i" } operands { name: "alpha" dtype: DATA_TYPE_I32 })");
}

inline v1::Intrinsic smallGemv() {
  return instruction(R"(
    name: "gemv.2x3" emit: "gemv" arithmetic { form: MULTIPLY_ADD }
    iterations { name: "i" extent: 2 } iterations { name: "r" extent: 3 reduction: true }
    operands { name: "y" dtype: DATA_TYPE_I32 subscripts: "i" }
    operands { name: "a" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "r" }
    operands { name: "x" dtype: DATA_TYPE_I32 subscripts: "r" })");
}

/// A window of two over four results: a subscript that adds iterations.
inline v1::Intrinsic smallWindow() {
  return instruction(R"(
    name: "window.4.2" emit: "window" arithmetic { form: MULTIPLY_ADD }
    iterations { name: "w" extent: 4 } iterations { name: "s" extent: 2 reduction: true }
    operands { name: "y" dtype: DATA_TYPE_I32 subscripts: "w" }
    operands { name: "x" dtype: DATA_TYPE_I32 subscripts: "w + s" }
    operands { name: "f" dtype: DATA_TYPE_I32 subscripts: "s" })");
}

}  // namespace tessera::compiler::intrinsic::testing
