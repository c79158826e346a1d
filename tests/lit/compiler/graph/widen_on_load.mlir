// RUN: tessera-opt %s -split-input-file -tessera-widen-on-load -tessera-remove-dead-code | FileCheck %s

#lhs = affine_map<(i, j, k) -> (i, k)>
#rhs = affine_map<(i, j, k) -> (k, j)>
#out = affine_map<(i, j, k) -> (i, j)>
#id = affine_map<(i, j) -> (i, j)>

// The product reads bf16 and widens in its body; the copy in f32 is gone.
// CHECK-LABEL: @product
// CHECK-NOT: tensor<5x7xf32>
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<5x7xbf16>, tensor<7x3xf32>)
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.mulf %{{.*}} : f32
func.func @product(%x: tensor<5x7xbf16>, %w: tensor<7x3xf32>) -> tensor<5x3xf32> {
  %wide_empty = tensor.empty() : tensor<5x7xf32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x7xbf16>) outs(%wide_empty : tensor<5x7xf32>) {
  ^bb0(%v: bf16, %o: f32):
    %e = arith.extf %v : bf16 to f32
    linalg.yield %e : f32
  } -> tensor<5x7xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<5x3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x3xf32>) -> tensor<5x3xf32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%wide, %w : tensor<5x7xf32>, tensor<7x3xf32>) outs(%init : tensor<5x3xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}
