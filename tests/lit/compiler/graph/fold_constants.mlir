// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-fold-constants -canonicalize | FileCheck %s

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

// A sum over rows, with its initial value.
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

// Operations that depend on an input stay.
// CHECK-LABEL: @input
// CHECK: linalg.generic
func.func @input(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<2xf32>
  %r = linalg.add ins(%x, %c : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// Two loops that all operands traverse contiguously become one; not if a third operand differs, or if an operand has
// only one of them.
// CHECK-LABEL: @walked_as_one
// CHECK-DAG: arith.constant dense<{{\[\[\[}}11, 12], [13, 14]], {{\[\[}}25, 26], [27, 28]]]>
// CHECK-DAG: arith.constant dense<{{\[\[}}11, 22], [13, 24]]>
// CHECK-DAG: arith.constant dense<{{\[\[}}1, 3], [3, 5]]>
// CHECK-NOT: linalg
func.func @walked_as_one() -> (tensor<2x2x2xi32>, tensor<2x2xi32>, tensor<2x2xi32>) {
  %x = arith.constant dense<[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]> : tensor<2x2x2xi32>
  %m = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %b = arith.constant dense<[10, 20]> : tensor<2xi32>
  %e = tensor.empty() : tensor<2x2x2xi32>
  %f = tensor.empty() : tensor<2x2xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i)>,
      affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %b : tensor<2x2x2xi32>, tensor<2xi32>) outs(%e : tensor<2x2x2xi32>) {
  ^bb0(%p: i32, %q: i32, %o: i32):
    %s = arith.addi %p, %q : i32
    linalg.yield %s : i32
  } -> tensor<2x2x2xi32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%m, %b : tensor<2x2xi32>, tensor<2xi32>) outs(%f : tensor<2x2xi32>) {
  ^bb0(%p: i32, %q: i32, %o: i32):
    %s = arith.addi %p, %q : i32
    linalg.yield %s : i32
  } -> tensor<2x2xi32>
  %u = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%m : tensor<2x2xi32>) outs(%f : tensor<2x2xi32>) {
  ^bb0(%p: i32, %o: i32):
    %j = linalg.index 1 : index
    %k = arith.index_cast %j : index to i32
    %s = arith.addi %p, %k : i32
    linalg.yield %s : i32
  } -> tensor<2x2xi32>
  return %r, %t, %u : tensor<2x2x2xi32>, tensor<2x2xi32>, tensor<2x2xi32>
}

// -----

// Only the read elements of a constant are materialized: all of this one would be 6.4 GB, as would its results.
// CHECK-LABEL: @corner_of_a_fill
// CHECK-NOT: 40000
// CHECK: arith.constant dense<5.000000e+00> : tensor<2x3xf32>
// CHECK-NOT: 40000
// CHECK: linalg.fill {{.*}} -> tensor<2x2xf32>
// CHECK-NOT: 40000
// CHECK: return
func.func @corner_of_a_fill() -> (tensor<2x2xf32>, tensor<2x3xf32>) {
  %value = arith.constant 2.5 : f32
  %e = tensor.empty() : tensor<40000x40000xf32>
  %f = linalg.fill ins(%value : f32) outs(%e : tensor<40000x40000xf32>) -> tensor<40000x40000xf32>
  %a = tensor.extract_slice %f[0, 1] [2, 2] [1, 1] : tensor<40000x40000xf32> to tensor<2x2xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%f : tensor<40000x40000xf32>) outs(%e : tensor<40000x40000xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %p : f32
    linalg.yield %s : f32
  } -> tensor<40000x40000xf32>
  %b = tensor.extract_slice %g[7, 30] [2, 3] [5, 2] : tensor<40000x40000xf32> to tensor<2x3xf32>
  return %a, %b : tensor<2x2xf32>, tensor<2x3xf32>
}
