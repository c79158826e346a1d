#pragma once

#include <map>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/imported_model.h"

/// Interpretation of models.
namespace tessera::compiler::verification {

/// Weights as arrays, created once for each distinct range of bytes.
class WeightArrays {
 public:
  const interpreter::Array& of(const Weight& weight, mlir::RankedTensorType type);

 private:
  struct Entry {
    std::shared_ptr<const void> owner;  // keeps the address from being reused
    interpreter::Array array;
  };
  std::map<std::pair<const char*, size_t>, Entry> entries_;
};

/// Runs @main on the model's inputs; returns its outputs, then the extents and the fault that it computes.
absl::StatusOr<std::vector<interpreter::Array>> runMain(const ImportedModel& model,
                                                        const std::vector<interpreter::Array>& inputs,
                                                        WeightArrays& weights, const interpreter::Options& options);

/// The element type of an API tensor in buffers; booleans take a byte.
interpreter::Element elementOf(const v1::TensorSpec& spec);

}  // namespace tessera::compiler::verification
