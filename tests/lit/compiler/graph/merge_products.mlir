// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -cse -tessera-merge-products -canonicalize -cse | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// Queries, keys and values: one product of 24 columns, one addition of the joined biases, three slices.
// CHECK-LABEL: @projections
// CHECK: %[[W:.*]] = tensor.concat dim(1) %arg1, %arg2, %arg3 : {{.*}} -> tensor<4x24xf32>
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%arg0, %[[W]] : tensor<6x4xf32>, tensor<4x24xf32>)
// CHECK: %[[B:.*]] = tensor.concat dim(0) %arg4, %arg5, %arg6 : {{.*}} -> tensor<24xf32>
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[B]] : tensor<6x24xf32>, tensor<24xf32>)
// CHECK: tensor.extract_slice %[[R]][0, 0] [6, 8] [1, 1]
// CHECK: tensor.extract_slice %[[R]][0, 8] [6, 8] [1, 1]
// CHECK: tensor.extract_slice %[[R]][0, 16] [6, 8] [1, 1]
// CHECK-NOT: arith.mulf
func.func @projections(%x: tensor<6x4xf32>, %w0: tensor<4x8xf32> {tessera.weight = 0 : i64}, %w1: tensor<4x8xf32> {tessera.weight = 1 : i64}, %w2: tensor<4x8xf32> {tessera.weight = 2 : i64}, %b0: tensor<8xf32> {tessera.weight = 3 : i64}, %b1: tensor<8xf32> {tessera.weight = 4 : i64}, %b2: tensor<8xf32> {tessera.weight = 5 : i64}) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %fe = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p0 = linalg.matmul ins(%x, %w0 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r0 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p0, %b0 : tensor<6x8xf32>, tensor<8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<6x8xf32>
  %p1 = linalg.matmul ins(%x, %w1 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r1 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p1, %b1 : tensor<6x8xf32>, tensor<8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<6x8xf32>
  %p2 = linalg.matmul ins(%x, %w2 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r2 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p2, %b2 : tensor<6x8xf32>, tensor<8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<6x8xf32>
  %v0 = tensor.expand_shape %r0 [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %v1 = tensor.expand_shape %r1 [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %v2 = tensor.expand_shape %r2 [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %o = tensor.empty() : tensor<2x3x8xf32>
  %q0 = linalg.log ins(%v0 : tensor<2x3x8xf32>) outs(%o : tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %q1 = linalg.log ins(%v1 : tensor<2x3x8xf32>) outs(%o : tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %q2 = linalg.log ins(%v2 : tensor<2x3x8xf32>) outs(%o : tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %q0, %q1, %q2 : tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// Widths may differ.
// CHECK-LABEL: @widths
// CHECK: ins(%arg0, %{{.*}} : tensor<6x4xf32>, tensor<4x32xf32>)
// CHECK: tensor.extract_slice %{{.*}}[0, 0] [6, 8] [1, 1]
// CHECK: tensor.extract_slice %{{.*}}[0, 8] [6, 24] [1, 1]
func.func @widths(%x: tensor<6x4xf32>, %w0: tensor<4x8xf32> {tessera.weight = 0 : i64}, %w1: tensor<4x24xf32> {tessera.weight = 1 : i64}) -> (tensor<6xf32>, tensor<6xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %fe = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %g = tensor.empty() : tensor<6x24xf32>
  %fg = linalg.fill ins(%z : f32) outs(%g : tensor<6x24xf32>) -> tensor<6x24xf32>
  %es = tensor.empty() : tensor<6xf32>
  %fs = linalg.fill ins(%z : f32) outs(%es : tensor<6xf32>) -> tensor<6xf32>
  %p0 = linalg.matmul ins(%x, %w0 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p1 = linalg.matmul ins(%x, %w1 : tensor<6x4xf32>, tensor<4x24xf32>) outs(%fg : tensor<6x24xf32>) -> tensor<6x24xf32>
  %s0 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p0 : tensor<6x8xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %s1 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p1 : tensor<6x24xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %s0, %s1 : tensor<6xf32>, tensor<6xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// 8 columns pack into a panel, 5 and 13 do not.
// CHECK-LABEL: @panels
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: arith.mulf
func.func @panels(%x: tensor<6x4xf32>, %w0: tensor<4x8xf32> {tessera.weight = 0 : i64}, %w1: tensor<4x5xf32> {tessera.weight = 1 : i64}) -> (tensor<6xf32>, tensor<6xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %fe = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %g = tensor.empty() : tensor<6x5xf32>
  %fg = linalg.fill ins(%z : f32) outs(%g : tensor<6x5xf32>) -> tensor<6x5xf32>
  %es = tensor.empty() : tensor<6xf32>
  %fs = linalg.fill ins(%z : f32) outs(%es : tensor<6xf32>) -> tensor<6xf32>
  %p0 = linalg.matmul ins(%x, %w0 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p1 = linalg.matmul ins(%x, %w1 : tensor<6x4xf32>, tensor<4x5xf32>) outs(%fg : tensor<6x5xf32>) -> tensor<6x5xf32>
  %s0 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p0 : tensor<6x8xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %s1 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p1 : tensor<6x5xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %s0, %s1 : tensor<6xf32>, tensor<6xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// Different operations follow: after a merge, neither would have its epilogue.
// CHECK-LABEL: @different_epilogues
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: arith.mulf
func.func @different_epilogues(%x: tensor<6x4xf32>, %w0: tensor<4x8xf32> {tessera.weight = 0 : i64}, %w1: tensor<4x8xf32> {tessera.weight = 1 : i64}) -> (tensor<6xf32>, tensor<6xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %fe = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %es = tensor.empty() : tensor<6xf32>
  %fs = linalg.fill ins(%z : f32) outs(%es : tensor<6xf32>) -> tensor<6xf32>
  %p0 = linalg.matmul ins(%x, %w0 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p1 = linalg.matmul ins(%x, %w1 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r0 = linalg.exp ins(%p0 : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r1 = linalg.log ins(%p1 : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %s0 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%r0 : tensor<6x8xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %s1 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%r1 : tensor<6x8xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %s0, %s1 : tensor<6xf32>, tensor<6xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// A run-time weight would have to be copied next to the other.
// CHECK-LABEL: @run_time_weight
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: arith.mulf
func.func @run_time_weight(%x: tensor<6x4xf32>, %w0: tensor<4x8xf32> {tessera.weight = 0 : i64}, %w1: tensor<4x8xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %fe = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %es = tensor.empty() : tensor<6xf32>
  %fs = linalg.fill ins(%z : f32) outs(%es : tensor<6xf32>) -> tensor<6xf32>
  %p0 = linalg.matmul ins(%x, %w0 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p1 = linalg.matmul ins(%x, %w1 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %s0 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p0 : tensor<6x8xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %s1 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p1 : tensor<6x8xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %s0, %s1 : tensor<6xf32>, tensor<6xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// Results of the model have buffers of their own.
// CHECK-LABEL: @returned
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: arith.mulf
func.func @returned(%x: tensor<6x4xf32>, %w0: tensor<4x8xf32> {tessera.weight = 0 : i64}, %w1: tensor<4x8xf32> {tessera.weight = 1 : i64}) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %fe = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p0 = linalg.matmul ins(%x, %w0 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p1 = linalg.matmul ins(%x, %w1 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  return %p0, %p1 : tensor<6x8xf32>, tensor<6x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>

// Another left operand.
// CHECK-LABEL: @other_operand
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: arith.mulf
func.func @other_operand(%x: tensor<6x4xf32>, %w0: tensor<4x8xf32> {tessera.weight = 0 : i64}, %w1: tensor<4x8xf32> {tessera.weight = 1 : i64}, %y: tensor<6x4xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %fe = linalg.fill ins(%z : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %es = tensor.empty() : tensor<6xf32>
  %fs = linalg.fill ins(%z : f32) outs(%es : tensor<6xf32>) -> tensor<6xf32>
  %p0 = linalg.matmul ins(%x, %w0 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %p1 = linalg.matmul ins(%y, %w1 : tensor<6x4xf32>, tensor<4x8xf32>) outs(%fe : tensor<6x8xf32>) -> tensor<6x8xf32>
  %s0 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p0 : tensor<6x8xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %s1 = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%p1 : tensor<6x8xf32>) outs(%fs : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %s0, %s1 : tensor<6xf32>, tensor<6xf32>
}
