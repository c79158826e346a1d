// RUN: tessera-opt %s -split-input-file -tessera-nest-concats | FileCheck %s

// A dense block concatenates all earlier results each time; nested, each part is placed once.
// CHECK-LABEL: @dense
// CHECK: %[[A:.*]] = tensor.concat dim(1) %arg0, %arg1
// CHECK: %[[B:.*]] = tensor.concat dim(1) %[[A]], %arg2
// CHECK: tensor.concat dim(1) %[[B]], %arg3
func.func @dense(%a: tensor<1x2x3xf32>, %b: tensor<1x2x3xf32>, %c: tensor<1x2x3xf32>, %d: tensor<1x2x3xf32>)
    -> (tensor<1x4x3xf32>, tensor<1x6x3xf32>, tensor<1x8x3xf32>) {
  %0 = tensor.concat dim(1) %a, %b : (tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x4x3xf32>
  %1 = tensor.concat dim(1) %a, %b, %c : (tensor<1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x6x3xf32>
  %2 = tensor.concat dim(1) %a, %b, %c, %d : (tensor<1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x8x3xf32>
  return %0, %1, %2 : tensor<1x4x3xf32>, tensor<1x6x3xf32>, tensor<1x8x3xf32>
}

// -----

// Another dimension, or another order, gives another tensor.
// CHECK-LABEL: @others
// CHECK: tensor.concat dim(2) %arg0, %arg1
// CHECK: tensor.concat dim(1) %arg0, %arg1, %arg2
// CHECK: tensor.concat dim(2) %arg1, %arg0, %arg2
func.func @others(%a: tensor<1x2x2xf32>, %b: tensor<1x2x2xf32>, %c: tensor<1x2x2xf32>)
    -> (tensor<1x2x4xf32>, tensor<1x6x2xf32>, tensor<1x2x6xf32>) {
  %0 = tensor.concat dim(2) %a, %b : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x4xf32>
  %1 = tensor.concat dim(1) %a, %b, %c : (tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x6x2xf32>
  %2 = tensor.concat dim(2) %b, %a, %c : (tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x6xf32>
  return %0, %1, %2 : tensor<1x2x4xf32>, tensor<1x6x2xf32>, tensor<1x2x6xf32>
}
