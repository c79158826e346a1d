// RUN: tessera-opt %s -split-input-file -tessera-generalize -tessera-fold-constants -canonicalize | FileCheck %s

// CHECK-LABEL: @transposed
// CHECK: arith.constant dense<{{\[}}[1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]>
// CHECK-NOT: linalg
func.func @transposed() -> tensor<3x2xf32> {
  %c = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %r = linalg.transpose ins(%c : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  return %r : tensor<3x2xf32>
}

// -----

// A sum over rows, with its start.
// CHECK-LABEL: @reduced
// CHECK: arith.constant dense<[16, 25]> : tensor<2xi32>
func.func @reduced() -> tensor<2xi32> {
  %c = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %ten = arith.constant 10 : i32
  %e = tensor.empty() : tensor<2xi32>
  %f = linalg.fill ins(%ten : i32) outs(%e : tensor<2xi32>) -> tensor<2xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%c : tensor<2x3xi32>) outs(%f : tensor<2xi32>) {
  ^bb0(%p: i32, %o: i32):
    %s = arith.addi %p, %o : i32
    linalg.yield %s : i32
  } -> tensor<2xi32>
  return %r : tensor<2xi32>
}

// -----

// CHECK-LABEL: @padded
// CHECK: arith.constant dense<[0, 7, 8, 0, 0]> : tensor<5xi8>
func.func @padded() -> tensor<5xi8> {
  %c = arith.constant dense<[7, 8]> : tensor<2xi8>
  %z = arith.constant 0 : i8
  %r = tensor.pad %c low[1] high[2] {
  ^bb0(%i: index):
    tensor.yield %z : i8
  } : tensor<2xi8> to tensor<5xi8>
  return %r : tensor<5xi8>
}

// -----

// What depends on an input stays.
// CHECK-LABEL: @input
// CHECK: linalg.generic
func.func @input(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<2xf32>
  %r = linalg.add ins(%x, %c : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
