// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-fuse-elementwise -tessera-fold-scales -canonicalize | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// (x w) * s + t is x (w s) + t: the factor moves into the weights, one addition stays.
// CHECK-LABEL: @scale_and_shift
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<4x8xf32>, tensor<8xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[W]] : tensor<6x4xf32>, tensor<4x8xf32>)
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addf
// CHECK-NEXT: linalg.yield
func.func @scale_and_shift(%x: tensor<6x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64},
    %s: tensor<8xf32> {tessera.weight = 1 : i64}, %t: tensor<8xf32> {tessera.weight = 2 : i64}) -> tensor<6x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #column, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %s, %t : tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %n = arith.addf %m, %c : f32
    linalg.yield %n : f32
  } -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// The factor is a model input, so the scaled weights are unknown.
// CHECK-LABEL: @factor_of_run_time
// CHECK: arith.addf
// CHECK: arith.mulf
// CHECK-NEXT: linalg.yield
func.func @factor_of_run_time(%x: tensor<6x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64}, %s: tensor<8xf32>) -> tensor<6x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %s : tensor<6x8xf32>, tensor<8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// A factor for each row is no factor of the weights' columns.
// CHECK-LABEL: @factor_by_row
// CHECK: ins(%{{.*}}, %{{.*}} : tensor<6x4xf32>, tensor<4x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<6x8xf32>, tensor<6xf32>)
// CHECK: arith.mulf
func.func @factor_by_row(%x: tensor<6x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64},
    %s: tensor<6xf32> {tessera.weight = 1 : i64}) -> tensor<6x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %s : tensor<6x8xf32>, tensor<6xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// The sum over zero is infinite; its terms over zero, with different signs, would give NaN.
// CHECK-LABEL: @divided_by_zero
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK-NEXT: linalg.yield
func.func @divided_by_zero(%x: tensor<6x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64}) -> tensor<6x8xf32> {
  %z = arith.constant 0.0 : f32
  %k = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.divf %a, %k : f32
    linalg.yield %m : f32
  } -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// The scaled weights would overflow, where the scaled sum does not.
// CHECK-LABEL: @times_what_weights_cannot_hold
// CHECK: arith.addf
// CHECK: arith.mulf
// CHECK-NEXT: linalg.yield
func.func @times_what_weights_cannot_hold(%x: tensor<6x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64}) -> tensor<6x8xf32> {
  %z = arith.constant 0.0 : f32
  %k = arith.constant 1.0e+38 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %k : f32
    linalg.yield %m : f32
  } -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// An ordinary constant moves into the weights: no operation is left after the product.
// CHECK-LABEL: @divided_by_an_ordinary_number
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK-NOT: arith.divf
// CHECK: return
func.func @divided_by_an_ordinary_number(%x: tensor<6x4xf32>, %w: tensor<4x8xf32> {tessera.weight = 0 : i64}) -> tensor<6x8xf32> {
  %z = arith.constant 0.0 : f32
  %k = arith.constant 3.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf32>, tensor<4x8xf32>) outs(%f : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.divf %a, %k : f32
    linalg.yield %m : f32
  } -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}
