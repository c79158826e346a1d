// RUN: tessera-opt %s -split-input-file -tessera-split-long-sums | FileCheck %s

#in = affine_map<(i) -> (i)>
#out = affine_map<(i) -> ()>

// A sum of 640,000 elements in sequence would lose precision: parts are summed, then combined.
// CHECK-LABEL: @mean_of_image
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
func.func @mean_of_image(%x: tensor<640000xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]} ins(%x : tensor<640000xf32>) outs(%init : tensor<f32>) {
  ^bb0(%v: f32, %acc: f32):
    %s = arith.addf %acc, %v : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

// -----

#in = affine_map<(i) -> (i)>
#out = affine_map<(i) -> ()>

// CHECK-LABEL: @short
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
func.func @short(%x: tensor<1000xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]} ins(%x : tensor<1000xf32>) outs(%init : tensor<f32>) {
  ^bb0(%v: f32, %acc: f32):
    %s = arith.addf %acc, %v : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}
