// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-simplify-movement -canonicalize | FileCheck %s

// CHECK-LABEL: @there_and_back
// CHECK-NOT: linalg.generic
// CHECK: return %arg0
func.func @there_and_back(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %e = tensor.empty() : tensor<4x2x3xf32>
  %a = linalg.transpose ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<4x2x3xf32>) permutation = [2, 0, 1]
  %f = tensor.empty() : tensor<2x3x4xf32>
  %b = linalg.transpose ins(%a : tensor<4x2x3xf32>) outs(%f : tensor<2x3x4xf32>) permutation = [1, 2, 0]
  return %b : tensor<2x3x4xf32>
}

// -----

// The pair cancels through the elementwise operation between; the vector follows its dimension.
// CHECK-DAG: #[[MIDDLE:.*]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-LABEL: @through_elementwise
// CHECK-COUNT-1: linalg.generic {indexing_maps = [#{{.*}}, #[[MIDDLE]], #{{.*}}]
// CHECK-NOT: linalg.generic
func.func @through_elementwise(%x: tensor<2x3x4xf32>, %v: tensor<3xf32>) -> tensor<2x3x4xf32> {
  %e = tensor.empty() : tensor<2x4x3xf32>
  %a = linalg.transpose ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<2x4x3xf32>) permutation = [0, 2, 1]
  %g = tensor.empty() : tensor<2x4x3xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %v : tensor<2x4x3xf32>, tensor<3xf32>) outs(%g : tensor<2x4x3xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.addf %p, %q : f32
    linalg.yield %t : f32
  } -> tensor<2x4x3xf32>
  %f = tensor.empty() : tensor<2x3x4xf32>
  %b = linalg.transpose ins(%s : tensor<2x4x3xf32>) outs(%f : tensor<2x3x4xf32>) permutation = [0, 2, 1]
  return %b : tensor<2x3x4xf32>
}

// -----

// The other operand has the order of the result: moving the transpose would only move the cost to that operand.
// CHECK-LABEL: @residual
// CHECK: linalg.generic {{.*}} ins(%arg0
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %arg1
func.func @residual(%x: tensor<3x4xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %a = linalg.transpose ins(%x : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) permutation = [1, 0]
  %r = linalg.add ins(%a, %y : tensor<4x3xf32>, tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}

// -----

// Only a dimension of extent one moves: a reshape.
// CHECK-LABEL: @unit_dimension
// CHECK-NOT: linalg.generic
// CHECK: return %{{.*}} : tensor<3x1x4xf32>
func.func @unit_dimension(%x: tensor<1x3x4xf32>) -> tensor<3x1x4xf32> {
  %e = tensor.empty() : tensor<3x1x4xf32>
  %a = linalg.transpose ins(%x : tensor<1x3x4xf32>) outs(%e : tensor<3x1x4xf32>) permutation = [1, 0, 2]
  return %a : tensor<3x1x4xf32>
}

// -----

// Cancels through a merge of dimensions that the second transpose keeps together.
// CHECK-LABEL: @through_merge
// CHECK-NOT: linalg.generic
// CHECK: tensor.collapse_shape %arg0
// CHECK: return
func.func @through_merge(%x: tensor<2x3x4xf32>) -> tensor<6x4xf32> {
  %e = tensor.empty() : tensor<4x2x3xf32>
  %a = linalg.transpose ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<4x2x3xf32>) permutation = [2, 0, 1]
  %v = tensor.collapse_shape %a [[0], [1, 2]] : tensor<4x2x3xf32> into tensor<4x6xf32>
  %f = tensor.empty() : tensor<6x4xf32>
  %b = linalg.transpose ins(%v : tensor<4x6xf32>) outs(%f : tensor<6x4xf32>) permutation = [1, 0]
  return %b : tensor<6x4xf32>
}

// -----

// A merge of dimensions that the first transpose separated really moves elements.
// CHECK-LABEL: @merge_of_transposed
// CHECK: linalg.generic
func.func @merge_of_transposed(%x: tensor<2x3x4xf32>) -> tensor<2x12xf32> {
  %e = tensor.empty() : tensor<2x4x3xf32>
  %a = linalg.transpose ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<2x4x3xf32>) permutation = [0, 2, 1]
  %v = tensor.collapse_shape %a [[0], [1, 2]] : tensor<2x4x3xf32> into tensor<2x12xf32>
  return %v : tensor<2x12xf32>
}

// -----

// CHECK-LABEL: @slices
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[5] [4] [2]
// CHECK: %[[B:.*]] = tensor.extract_slice %arg1[1] [2] [1]
// CHECK: return %[[A]], %[[B]], %arg0
func.func @slices(%x: tensor<20xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<20xf32>) {
  %z = arith.constant 0.0 : f32
  %s = tensor.extract_slice %x[3] [12] [1] : tensor<20xf32> to tensor<12xf32>
  %a = tensor.extract_slice %s[2] [4] [2] : tensor<12xf32> to tensor<4xf32>
  %c = tensor.concat dim(0) %x, %y : (tensor<20xf32>, tensor<4xf32>) -> tensor<24xf32>
  %b = tensor.extract_slice %c[21] [2] [1] : tensor<24xf32> to tensor<2xf32>
  %p = tensor.pad %x low[2] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<20xf32> to tensor<23xf32>
  %d = tensor.extract_slice %p[2] [20] [1] : tensor<23xf32> to tensor<20xf32>
  return %a, %b, %d : tensor<4xf32>, tensor<2xf32>, tensor<20xf32>
}

// -----

// A slice across two parts, and a slice that includes padding, are no slice of one tensor.
// CHECK-LABEL: @across
// CHECK: tensor.concat
// CHECK: tensor.pad
func.func @across(%x: tensor<20xf32>, %y: tensor<4xf32>) -> (tensor<2xf32>, tensor<20xf32>) {
  %z = arith.constant 0.0 : f32
  %c = tensor.concat dim(0) %x, %y : (tensor<20xf32>, tensor<4xf32>) -> tensor<24xf32>
  %b = tensor.extract_slice %c[19] [2] [1] : tensor<24xf32> to tensor<2xf32>
  %p = tensor.pad %x low[2] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<20xf32> to tensor<23xf32>
  %d = tensor.extract_slice %p[1] [20] [1] : tensor<23xf32> to tensor<20xf32>
  return %b, %d : tensor<2xf32>, tensor<20xf32>
}

// -----

// Split and joined again; joined twice; padded twice.
// CHECK-LABEL: @joined
// CHECK: %[[C:.*]] = tensor.concat dim(0) %arg0, %arg1, %arg0
// CHECK: %[[P:.*]] = tensor.pad %arg1 low[3] high[3]
// CHECK: return %arg0, %[[C]], %[[P]]
func.func @joined(%x: tensor<6xf32>, %y: tensor<4xf32>) -> (tensor<6xf32>, tensor<16xf32>, tensor<10xf32>) {
  %z = arith.constant 0.0 : f32
  %a = tensor.extract_slice %x[0] [2] [1] : tensor<6xf32> to tensor<2xf32>
  %b = tensor.extract_slice %x[2] [4] [1] : tensor<6xf32> to tensor<4xf32>
  %whole = tensor.concat dim(0) %a, %b : (tensor<2xf32>, tensor<4xf32>) -> tensor<6xf32>
  %c = tensor.concat dim(0) %x, %y : (tensor<6xf32>, tensor<4xf32>) -> tensor<10xf32>
  %d = tensor.concat dim(0) %c, %x : (tensor<10xf32>, tensor<6xf32>) -> tensor<16xf32>
  %p = tensor.pad %y low[1] high[2] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<7xf32>
  %q = tensor.pad %p low[2] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<7xf32> to tensor<10xf32>
  return %whole, %d, %q : tensor<6xf32>, tensor<16xf32>, tensor<10xf32>
}

// -----

// Different padding values: two paddings.
// CHECK-LABEL: @two_values
// CHECK-COUNT-2: tensor.pad
func.func @two_values(%y: tensor<4xf32>) -> tensor<8xf32> {
  %z = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %p = tensor.pad %y low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<6xf32>
  %q = tensor.pad %p low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<6xf32> to tensor<8xf32>
  return %q : tensor<8xf32>
}

// -----

// MLIR's canonicalization does these: a reshape of a reshape, a slice of everything, a padding by nothing, a
// concatenation of one.
// CHECK-LABEL: @nothing_moves
// CHECK-NEXT: return %arg0, %arg0, %arg0, %arg0
func.func @nothing_moves(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %z = arith.constant 0.0 : f32
  %v = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 2, 3] : tensor<4x6xf32> into tensor<4x2x3xf32>
  %r = tensor.collapse_shape %v [[0], [1, 2]] : tensor<4x2x3xf32> into tensor<4x6xf32>
  %s = tensor.extract_slice %x[0, 0] [4, 6] [1, 1] : tensor<4x6xf32> to tensor<4x6xf32>
  %p = tensor.pad %x low[0, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<4x6xf32> to tensor<4x6xf32>
  %c = tensor.concat dim(0) %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %r, %s, %p, %c : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}
