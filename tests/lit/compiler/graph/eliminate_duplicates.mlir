// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-eliminate-duplicates | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>

// The same normalization for two readers is computed once.
// CHECK-LABEL: @once
// CHECK-COUNT-1: math.exp
// CHECK-NOT: math.exp
func.func @once(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %a = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<4x8xf32>
  %b = linalg.exp ins(%x : tensor<4x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Equal arithmetic on other operands, or with other access maps, is different.
// CHECK-LABEL: @different
// CHECK-COUNT-3: math.exp
func.func @different(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %e = tensor.empty() : tensor<4x4xf32>
  %a = linalg.exp ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = linalg.exp ins(%y : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = math.exp %p : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %a, %b, %c : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Equal constants of two operations do not make them different.
// CHECK-LABEL: @own_constants
// CHECK-COUNT-1: arith.maximumf
// CHECK-NOT: arith.maximumf
func.func @own_constants(%x: tensor<8xf32>) -> (tensor<8xf32>, f32, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %c = arith.constant 0.0 : f32
    %t = arith.maximumf %p, %c : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  %z = arith.constant 0.0 : f32
  %b = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %c = arith.constant 0.0 : f32
    %t = arith.maximumf %p, %c : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %a, %z, %b : tensor<8xf32>, f32, tensor<8xf32>
}
