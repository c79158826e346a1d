// RUN: tessera-opt %s -split-input-file -tessera-recognize-concat | FileCheck %s

// CHECK-LABEL: @side_by_side
// CHECK: tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
// CHECK-NOT: tensor.insert_slice
func.func @side_by_side(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %e = tensor.empty() : tensor<2x7xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<2x7xf32>
  %b = tensor.insert_slice %y into %a[0, 3] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<2x7xf32>
  return %b : tensor<2x7xf32>
}

// -----

// A gap of one column is not filled.
// CHECK-LABEL: @gap
// CHECK-NOT: tensor.concat
func.func @gap(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x7xf32> {
  %e = tensor.empty() : tensor<2x7xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<2x7xf32>
  %b = tensor.insert_slice %y into %a[0, 4] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<2x7xf32>
  return %b : tensor<2x7xf32>
}

// -----

// Written over a tensor that holds values: not a concatenation.
// CHECK-LABEL: @over_values
// CHECK-NOT: tensor.concat
func.func @over_values(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>, %z: tensor<2x7xf32>) -> tensor<2x7xf32> {
  %a = tensor.insert_slice %x into %z[0, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<2x7xf32>
  %b = tensor.insert_slice %y into %a[0, 3] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<2x7xf32>
  return %b : tensor<2x7xf32>
}

// -----

// Another operation reads the partially filled tensor.
// CHECK-LABEL: @half_filled
// CHECK-NOT: tensor.concat
func.func @half_filled(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> (tensor<2x7xf32>, tensor<2x7xf32>) {
  %e = tensor.empty() : tensor<2x7xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<2x7xf32>
  %b = tensor.insert_slice %y into %a[0, 3] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<2x7xf32>
  return %a, %b : tensor<2x7xf32>, tensor<2x7xf32>
}
