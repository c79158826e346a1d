// RUN: tessera-opt %s -split-input-file -tessera-sum-halves-in-single | FileCheck %s

#in = affine_map<(i, j) -> (i, j)>
#out = affine_map<(i, j) -> (i)>

// The accumulator becomes f32; the sum is rounded once, at the end.
// CHECK-LABEL: @sum
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<3xf32>)
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.addf %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @sum(%x: tensor<3x700xf16>) -> tensor<3xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<3xf16>
  %init = linalg.fill ins(%zero : f16) outs(%empty : tensor<3xf16>) -> tensor<3xf16>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x700xf16>) outs(%init : tensor<3xf16>) {
  ^bb0(%v: f16, %acc: f16):
    %s = arith.addf %acc, %v : f16
    linalg.yield %s : f16
  } -> tensor<3xf16>
  return %y : tensor<3xf16>
}

// -----

#in = affine_map<(i, j) -> (i, j)>
#out = affine_map<(i, j) -> (i)>

// A maximum does not round: it stays as it is.
// CHECK-LABEL: @maximum
// CHECK-NOT: f32
// CHECK: arith.maximumf %{{.*}} : f16
func.func @maximum(%x: tensor<3x700xf16>) -> tensor<3xf16> {
  %least = arith.constant 0xFC00 : f16
  %empty = tensor.empty() : tensor<3xf16>
  %init = linalg.fill ins(%least : f16) outs(%empty : tensor<3xf16>) -> tensor<3xf16>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x700xf16>) outs(%init : tensor<3xf16>) {
  ^bb0(%v: f16, %acc: f16):
    %s = arith.maximumf %acc, %v : f16
    linalg.yield %s : f16
  } -> tensor<3xf16>
  return %y : tensor<3xf16>
}
