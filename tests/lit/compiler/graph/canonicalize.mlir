// RUN: tessera-opt %s -split-input-file -tessera-canonicalize | FileCheck %s

// CHECK-LABEL: @neutral
// CHECK-NOT: arith.addi
// CHECK: return %arg0
func.func @neutral(%x: index) -> index {
  %zero = arith.constant 0 : index
  %y = arith.addi %x, %zero : index
  return %y : index
}

// -----

// MLIR's pattern for padding that is inserted into a fill forgets the strides: it is left out, and the padding stays.
// CHECK-LABEL: @strided_insertion
// CHECK: tensor.pad
// CHECK: tensor.insert_slice {{.*}}[0] [4] [2]
func.func @strided_insertion(%x: tensor<2xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<2xf32> to tensor<4xf32>
  %empty = tensor.empty() : tensor<8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %y = tensor.insert_slice %padded into %fill[0] [4] [2] : tensor<4xf32> into tensor<8xf32>
  return %y : tensor<8xf32>
}
