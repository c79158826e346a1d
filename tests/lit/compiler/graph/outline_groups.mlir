// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-outline-groups | FileCheck %s

// A product's group includes the elementwise operations at the same points. A slice becomes part of the reader, whose
// argument is the whole tensor.
// CHECK-LABEL: func.func @main(
// CHECK: func.func @main_group_0(%[[X:.*]]: tensor<6x12xf32>, %{{.*}}: tensor<4x8xf32>) -> tensor<6x8xf32>
// CHECK: tensor.extract_slice %[[X]][0, 4] [6, 4] [1, 1]
// CHECK: arith.mulf
// CHECK: math.exp
// CHECK-NOT: main_group_1
func.func @main(%x: tensor<6x12xf32>, %w: tensor<4x8xf32>) -> tensor<6x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %s = tensor.extract_slice %x[0, 4] [6, 4] [1, 1] : tensor<6x12xf32> to tensor<6x4xf32>
  %p = linalg.matmul ins(%s, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = linalg.exp ins(%p : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

// Another operation reads the product: the elementwise operation is a separate group.
// CHECK-LABEL: func.func @main(
// CHECK: func.func @main_group_0
// CHECK: arith.mulf
// CHECK: func.func @main_group_1
// CHECK: math.exp
func.func @main(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = linalg.exp ins(%p : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  return %p, %r : tensor<6x8xf32>, tensor<6x8xf32>
}
