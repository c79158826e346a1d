// RUN: tessera-opt %s -tessera-constants-to-weights | FileCheck %s

// A constant of several values becomes an argument that names the weight; a uniform one stays in the code.
// CHECK-LABEL: @main
// CHECK-SAME: tensor<3xf32> {tessera.weight = 0 : i64}
// CHECK: arith.constant dense<2.000000e+00>
// CHECK-NOT: dense<[1.0
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %ramp = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %two = arith.constant dense<2.0> : tensor<3xf32>
  %a = linalg.add ins(%x, %ramp : tensor<3xf32>, tensor<3xf32>) outs(%x : tensor<3xf32>) -> tensor<3xf32>
  %b = linalg.mul ins(%x, %two : tensor<3xf32>, tensor<3xf32>) outs(%x : tensor<3xf32>) -> tensor<3xf32>
  return %a, %b : tensor<3xf32>, tensor<3xf32>
}
