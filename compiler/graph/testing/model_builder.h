#pragma once

#include <string>
#include <vector>

#include "compiler/ir/imported_model.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// Builds models in the importer's form, for tests: f32, NCHW, seeded weights, each layer a method.
class ModelBuilder {
 public:
  explicit ModelBuilder(mlir::MLIRContext& context);

  mlir::Value input(llvm::ArrayRef<int64_t> shape);
  /// Values in [-1, 1]; `lowest` above zero maps them into [lowest, lowest + 1] (variances).
  mlir::Value weight(llvm::ArrayRef<int64_t> shape, float lowest = 0);

  struct Window {
    int64_t kernel = 1;
    int64_t stride = 1;
    int64_t pad = 0;
    int64_t dilation = 1;
    int64_t groups = 1;
  };
  mlir::Value conv(mlir::Value x, int64_t outputs, Window window);
  /// A convolution with a filter [outputs, channels, kernel, kernel]; no groups.
  mlir::Value convWith(mlir::Value x, mlir::Value filter, Window window);
  mlir::Value depthwise(mlir::Value x, Window window);
  mlir::Value maxPool(mlir::Value x, Window window);
  mlir::Value globalAverage(mlir::Value x);  ///< [n, c, h, w] -> [n, c, 1, 1]
  /// Computes x[n, f, ...] + bias[f] or x * scale[f]; `dim` is the channel dimension.
  mlir::Value addChannel(mlir::Value x, mlir::Value vector, int64_t dim = 1);
  mlir::Value mulChannel(mlir::Value x, mlir::Value vector, int64_t dim = 1);
  mlir::Value subChannel(mlir::Value x, mlir::Value vector, int64_t dim = 1);
  /// Computes (x - mean) / sqrt(variance + 1e-5) * scale + shift.
  mlir::Value batchNorm(mlir::Value x);
  mlir::Value relu(mlir::Value x);
  mlir::Value sigmoid(mlir::Value x);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> parts, int64_t dim);
  mlir::Value slice(mlir::Value x, int64_t dim, int64_t offset, int64_t size);
  mlir::Value pad(mlir::Value x, int64_t amount, float with = 0);
  mlir::Value matmul(mlir::Value x, mlir::Value y, bool transpose_y = false);
  mlir::Value batchMatmul(mlir::Value x, mlir::Value y);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transposed(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  mlir::Value softmax(mlir::Value x);    ///< over the last dimension
  mlir::Value causal(mlir::Value x);     ///< x[.., i, j] where j <= i, -infinity elsewhere
  mlir::Value layerNorm(mlir::Value x);  ///< over the last dimension, with scale and shift

  ImportedModel finish(llvm::ArrayRef<mlir::Value> results);

 private:
  using Body = llvm::function_ref<mlir::Value(mlir::OpBuilder&, mlir::Location, mlir::ValueRange)>;
  mlir::Value elementwise(llvm::ArrayRef<mlir::Value> operands, llvm::ArrayRef<mlir::AffineMap> maps, Body body);
  mlir::Value reduceLast(mlir::Value x, float start, Body body);
  mlir::Value filled(llvm::ArrayRef<int64_t> shape, float value);
  mlir::Value channelwise(mlir::Value x, mlir::Value vector, int64_t dim, Body body);
  mlir::Value window(mlir::Value x, mlir::Value kernel, Window window, float start, Body body);

  ImportedModel model_;
  mlir::func::FuncOp main_;
  mlir::OpBuilder b_;
  mlir::Location loc_;
  uint64_t seed_ = 1;
};

/// Makes the first dimension of the first input and the first result a range; runs have at least `fewest` elements.
ImportedModel withFewer(ImportedModel model, int64_t fewest);

}  // namespace tessera::compiler
