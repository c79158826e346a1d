// RUN: tessera-opt %s -split-input-file -tessera-eliminate-casts -canonicalize | FileCheck %s

#id = affine_map<(i) -> (i)>

// f16 -> f32 -> f16 in one body is removed.
// CHECK-LABEL: @widened_and_back
// CHECK-NOT: arith.extf
// CHECK-NOT: arith.truncf
// CHECK: return
func.func @widened_and_back(%x: tensor<8xf16>) -> tensor<8xf16> {
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%p: f16, %o: f16):
    %w = arith.extf %p : f16 to f32
    %n = arith.truncf %w : f32 to f16
    linalg.yield %n : f16
  } -> tensor<8xf16>
  return %r : tensor<8xf16>
}

// -----

#id = affine_map<(i) -> (i)>

// f32 -> f16 -> f32 is a rounding and stays.
// CHECK-LABEL: @rounding
// CHECK: arith.truncf
// CHECK: arith.extf
func.func @rounding(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %n = arith.truncf %p : f32 to f16
    %w = arith.extf %n : f16 to f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// bf16 does not hold all f16 values: the narrowing rounds, although the widening before it did not.
// CHECK-LABEL: @other_narrow_type
// CHECK: arith.extf
// CHECK: arith.truncf
func.func @other_narrow_type(%x: tensor<8xf16>) -> tensor<8xbf16> {
  %e = tensor.empty() : tensor<8xbf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xbf16>) {
  ^bb0(%p: f16, %o: bf16):
    %w = arith.extf %p : f16 to f32
    %n = arith.truncf %w : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<8xbf16>
  return %r : tensor<8xbf16>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#id3 = affine_map<(i, j, k) -> (i, j, k)>

// The casts meet through a reshape and a transpose, and cancel.
// CHECK-LABEL: @through_views
// CHECK-NOT: f32
// CHECK: return %{{.*}} : tensor<4x2x3xf16>
func.func @through_views(%x: tensor<4x6xf16>) -> tensor<4x2x3xf16> {
  %e = tensor.empty() : tensor<4x6xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x6xf16>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%p: f16, %o: f32):
    %s = arith.extf %p : f16 to f32
    linalg.yield %s : f32
  } -> tensor<4x6xf32>
  %v = tensor.expand_shape %w [[0], [1, 2]] output_shape [4, 3, 2] : tensor<4x6xf32> into tensor<4x3x2xf32>
  %e2 = tensor.empty() : tensor<4x2x3xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k, j)>, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v : tensor<4x3x2xf32>) outs(%e2 : tensor<4x2x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<4x2x3xf32>
  %e3 = tensor.empty() : tensor<4x2x3xf16>
  %n = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%t : tensor<4x2x3xf32>) outs(%e3 : tensor<4x2x3xf16>) {
  ^bb0(%p: f32, %o: f16):
    %s = arith.truncf %p : f32 to f16
    linalg.yield %s : f16
  } -> tensor<4x2x3xf16>
  return %n : tensor<4x2x3xf16>
}

// -----

#id = affine_map<(i) -> (i)>

// Type propagation: a maximum returns one of its operands, so it works on f16, with the constant in f16.
// CHECK-LABEL: @maximum
// CHECK: arith.constant 0.000000e+00 : f16
// CHECK: arith.maximumf %{{.*}}, %{{.*}} : f16
// CHECK-NOT: f32
// CHECK: return
func.func @maximum(%x: tensor<8xf16>) -> tensor<8xf16> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%p: f16, %o: f16):
    %w = arith.extf %p : f16 to f32
    %m = arith.maximumf %w, %z : f32
    %n = arith.truncf %m : f32 to f16
    linalg.yield %n : f16
  } -> tensor<8xf16>
  return %r : tensor<8xf16>
}

// -----

#id = affine_map<(i) -> (i)>

// 0.1 is not representable in f16, and a product rounds, so it keeps the wide type.
// CHECK-LABEL: @inexact
// CHECK: arith.maximumf {{.*}} : f32
// CHECK: arith.mulf {{.*}} : f32
func.func @inexact(%x: tensor<8xf16>) -> (tensor<8xf16>, tensor<8xf16>) {
  %c = arith.constant 0.1 : f32
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%p: f16, %o: f16):
    %w = arith.extf %p : f16 to f32
    %m = arith.maximumf %w, %c : f32
    %n = arith.truncf %m : f32 to f16
    linalg.yield %n : f16
  } -> tensor<8xf16>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf16>) {
  ^bb0(%p: f16, %o: f16):
    %w = arith.extf %p : f16 to f32
    %m = arith.mulf %w, %w : f32
    %n = arith.truncf %m : f32 to f16
    linalg.yield %n : f16
  } -> tensor<8xf16>
  return %r, %q : tensor<8xf16>, tensor<8xf16>
}

// -----

#id = affine_map<(i) -> (i)>

// i8 -> f32 -> i32 with the importer's saturation: the range of i8 decides every comparison.
// CHECK-LABEL: @integer_round_trip
// CHECK: arith.extsi %{{.*}} : i8 to i32
// CHECK-NEXT: linalg.yield
// CHECK-NOT: arith.select
func.func @integer_round_trip(%x: tensor<8xi8>) -> tensor<8xi32> {
  %low = arith.constant -2147483648.0 : f32
  %high = arith.constant 2147483648.0 : f32
  %zero = arith.constant 0.0 : f32
  %least = arith.constant -2147483648 : i32
  %most = arith.constant 2147483647 : i32
  %e = tensor.empty() : tensor<8xi32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xi8>) outs(%e : tensor<8xi32>) {
  ^bb0(%p: i8, %o: i32):
    %w = arith.sitofp %p : i8 to f32
    %below = arith.cmpf ole, %w, %low : f32
    %above = arith.cmpf oge, %w, %high : f32
    %nan = arith.cmpf une, %w, %w : f32
    %either = arith.ori %below, %above : i1
    %unsafe = arith.ori %nan, %either : i1
    %safe = arith.select %unsafe, %zero, %w : f32
    %n = arith.fptosi %safe : f32 to i32
    %m = arith.select %above, %most, %n : i32
    %s = arith.select %below, %least, %m : i32
    linalg.yield %s : i32
  } -> tensor<8xi32>
  return %r : tensor<8xi32>
}

// -----

#id = affine_map<(i) -> (i)>

// f32 does not hold all i32 values: the round trip changes large numbers.
// CHECK-LABEL: @inexact_integer
// CHECK: arith.sitofp
// CHECK: arith.fptosi
func.func @inexact_integer(%x: tensor<8xi32>) -> tensor<8xi64> {
  %e = tensor.empty() : tensor<8xi64>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xi32>) outs(%e : tensor<8xi64>) {
  ^bb0(%p: i32, %o: i64):
    %w = arith.sitofp %p : i32 to f32
    %n = arith.fptosi %w : f32 to i64
    linalg.yield %n : i64
  } -> tensor<8xi64>
  return %r : tensor<8xi64>
}

// -----

#id = affine_map<(i) -> (i)>

// Two narrowings of one widened value that is also read unchanged: each reads the source.
// CHECK-LABEL: @duplicates
// CHECK-NOT: arith.truncf
// CHECK: return %{{.*}}, %[[X:.*]], %[[X]]
func.func @duplicates(%x: tensor<8xf16>) -> (tensor<8xf32>, tensor<8xf16>, tensor<8xf16>) {
  %e = tensor.empty() : tensor<8xf32>
  %h = tensor.empty() : tensor<8xf16>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f16, %o: f32):
    %s = arith.extf %p : f16 to f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%w : tensor<8xf32>) outs(%h : tensor<8xf16>) {
  ^bb0(%p: f32, %o: f16):
    %s = arith.truncf %p : f32 to f16
    linalg.yield %s : f16
  } -> tensor<8xf16>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%w : tensor<8xf32>) outs(%h : tensor<8xf16>) {
  ^bb0(%p: f32, %o: f16):
    %s = arith.truncf %p : f32 to f16
    linalg.yield %s : f16
  } -> tensor<8xf16>
  return %w, %a, %b : tensor<8xf32>, tensor<8xf16>, tensor<8xf16>
}
