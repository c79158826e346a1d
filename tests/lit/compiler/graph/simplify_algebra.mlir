// RUN: tessera-opt %s -split-input-file -tessera-simplify-algebra -canonicalize | FileCheck %s

#id = affine_map<(i) -> (i)>

// CHECK-LABEL: @neutral_elements
// CHECK-NOT: linalg.generic
// CHECK: return %arg0
func.func @neutral_elements(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %a = arith.mulf %p, %one : f32
    %b = arith.addf %zero, %a : f32
    %c = arith.divf %b, %one : f32
    %d = arith.subf %c, %zero : f32
    %f = arith.negf %d : f32
    %g = arith.negf %f : f32
    %h = math.powf %g, %one : f32
    linalg.yield %h : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// x^3 is two products; (y * 2) * 3 is y * 6; y / 8 is y * 0.125, exactly.
// CHECK-LABEL: @powers_and_chains
// CHECK-DAG: arith.constant 6.000000e+00 : f32
// CHECK-DAG: arith.constant 1.250000e-01 : f32
// CHECK: %[[S:.*]] = arith.mulf %[[P:.*]], %[[P]] : f32
// CHECK: %[[C:.*]] = arith.mulf %[[S]], %[[P]] : f32
// CHECK-NOT: math.powf
// CHECK-NOT: arith.divf
func.func @powers_and_chains(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %two = arith.constant 2.0 : f32
  %three = arith.constant 3.0 : f32
  %eight = arith.constant 8.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %a = math.powf %p, %three : f32
    %b = arith.mulf %q, %two : f32
    %c = arith.mulf %b, %three : f32
    %d = arith.divf %q, %eight : f32
    %f = arith.addf %a, %c : f32
    %g = arith.subf %f, %d : f32
    linalg.yield %g : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// Signs cancel, bounds of one kind merge.
// CHECK-LABEL: @signs_and_bounds
// CHECK: %[[D:.*]] = arith.subf %[[P:.*]], %[[Q:.*]] : f32
// CHECK-NEXT: %[[M:.*]] = arith.maximumf %[[D]], %{{.*}} : f32
// CHECK-NEXT: linalg.yield %[[M]]
func.func @signs_and_bounds(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -1.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %n = arith.negf %q : f32
    %a = arith.addf %p, %n : f32
    %b = arith.maximumf %a, %low : f32
    %c = arith.maximumf %b, %zero : f32
    linalg.yield %c : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// floor(49 / 49) must stay 1, and 49 * (1 / 49) is below 1 in f32; x * 0 and x - x are NaN for infinities; sums do
// not reassociate; a square root is not a power of 0.5 at minus infinity.
// CHECK-LABEL: @left_alone
// CHECK: arith.divf
// CHECK: arith.mulf
// CHECK: arith.subf
// CHECK: arith.addf
// CHECK: arith.addf
// CHECK: math.powf
func.func @left_alone(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %odd = arith.constant 49.0 : f32
  %large = arith.constant 1.0e9 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<8xf32>
  %r:5 = linalg.generic {indexing_maps = [#id, #id, #id, #id, #id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>)
      outs(%e, %e, %e, %e, %e : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%p: f32, %o0: f32, %o1: f32, %o2: f32, %o3: f32, %o4: f32):
    %a = arith.divf %p, %odd : f32
    %b = arith.mulf %p, %zero : f32
    %c = arith.subf %p, %p : f32
    %d = arith.addf %p, %large : f32
    %f = arith.addf %d, %odd : f32
    %g = math.powf %p, %half : f32
    linalg.yield %a, %b, %c, %f, %g : f32, f32, f32, f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
