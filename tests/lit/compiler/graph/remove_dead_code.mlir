// RUN: tessera-opt %s -split-input-file -tessera-remove-dead-code | FileCheck %s

// A chain without users is removed as a whole, with its empty destination tensors.
// CHECK-LABEL: @chain
// CHECK-NEXT: return
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %b = linalg.log ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}

// -----

// Read by a result, even indirectly: stays.
// CHECK-LABEL: @alive
// CHECK: linalg.exp
func.func @alive(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %b = tensor.expand_shape %a [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  return %b : tensor<2x2xf32>
}
