#pragma once

#include <map>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/imported_model.h"

/// Models, interpreted.
namespace tessera::compiler::verification {

/// Weights as arrays, once for each of the bytes they are views of.
class WeightArrays {
 public:
  const interpreter::Array& of(const Weight& weight, mlir::RankedTensorType type);

 private:
  struct Entry {
    std::shared_ptr<const void> owner;  // keeps the address taken
    interpreter::Array array;
  };
  std::map<std::pair<const char*, size_t>, Entry> entries_;
};

/// Runs @main on the model's inputs; returns its outputs, then the extents that it computes.
absl::StatusOr<std::vector<interpreter::Array>> runMain(const ImportedModel& model,
                                                        const std::vector<interpreter::Array>& inputs,
                                                        WeightArrays& weights, const interpreter::Options& options);

/// The element type that a tensor of the API has in buffers; booleans take a byte.
interpreter::Element elementOf(const v1::TensorSpec& spec);

}  // namespace tessera::compiler::verification
