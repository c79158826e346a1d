// RUN: tessera-opt %s -tessera-plan | FileCheck %s

// Multi-head attention as exporters write it: projections, heads split by a reshape and a transpose (a different one
// for keys), scores, values, heads merged, output projection. Queries, keys and values are one product; splitting and
// merging heads, and transposing keys, moves no data.
// CHECK: rewrite merge-products: 2
// CHECK: rewrite absorb-transposes: 4
// CHECK: step 0: matmul 8x96x32 + add
// CHECK-NEXT: step 1: matmul {{.*}}8x8x16 + exp
// CHECK-NEXT: step 2: matmul {{.*}}8x16x8
// CHECK-NEXT: step 3: matmul 8x32x32 + add
// CHECK-NEXT: steps 4,
#id = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
func.func @main(%x: tensor<8x32xf32>, %w0: tensor<32x32xf32> {tessera.weight = 0 : i64},
    %w1: tensor<32xf32> {tessera.weight = 1 : i64},
    %w2: tensor<32x32xf32> {tessera.weight = 2 : i64},
    %w3: tensor<32xf32> {tessera.weight = 3 : i64},
    %w4: tensor<32x32xf32> {tessera.weight = 4 : i64},
    %w5: tensor<32xf32> {tessera.weight = 5 : i64},
    %w6: tensor<32x32xf32> {tessera.weight = 6 : i64},
    %w7: tensor<32xf32> {tessera.weight = 7 : i64}) -> tensor<8x32xf32> {
  %z = arith.constant 0.0 : f32
  %v1 = tensor.empty() : tensor<8x32xf32>
  %v2 = linalg.fill ins(%z : f32) outs(%v1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %v3 = linalg.matmul ins(%x, %w0 : tensor<8x32xf32>, tensor<32x32xf32>) outs(%v2 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %v4 = tensor.empty() : tensor<8x32xf32>
  %v5 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%v3, %w1 : tensor<8x32xf32>, tensor<32xf32>) outs(%v4 : tensor<8x32xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %v6 = tensor.empty() : tensor<8x32xf32>
  %v7 = linalg.fill ins(%z : f32) outs(%v6 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %v8 = linalg.matmul ins(%x, %w2 : tensor<8x32xf32>, tensor<32x32xf32>) outs(%v7 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %v9 = tensor.empty() : tensor<8x32xf32>
  %v10 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%v8, %w3 : tensor<8x32xf32>, tensor<32xf32>) outs(%v9 : tensor<8x32xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %v11 = tensor.empty() : tensor<8x32xf32>
  %v12 = linalg.fill ins(%z : f32) outs(%v11 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %v13 = linalg.matmul ins(%x, %w4 : tensor<8x32xf32>, tensor<32x32xf32>) outs(%v12 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %v14 = tensor.empty() : tensor<8x32xf32>
  %v15 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%v13, %w5 : tensor<8x32xf32>, tensor<32xf32>) outs(%v14 : tensor<8x32xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %v16 = tensor.expand_shape %v5 [[0, 1], [2, 3]] output_shape [1, 8, 2, 16] : tensor<8x32xf32> into tensor<1x8x2x16xf32>
  %v17 = tensor.empty() : tensor<1x2x8x16xf32>
  %v18 = linalg.transpose ins(%v16 : tensor<1x8x2x16xf32>) outs(%v17 : tensor<1x2x8x16xf32>) permutation = [0, 2, 1, 3]
  %v19 = tensor.collapse_shape %v18 [[0, 1], [2], [3]] : tensor<1x2x8x16xf32> into tensor<2x8x16xf32>
  %v20 = tensor.expand_shape %v10 [[0, 1], [2, 3]] output_shape [1, 8, 2, 16] : tensor<8x32xf32> into tensor<1x8x2x16xf32>
  %v21 = tensor.empty() : tensor<1x2x16x8xf32>
  %v22 = linalg.transpose ins(%v20 : tensor<1x8x2x16xf32>) outs(%v21 : tensor<1x2x16x8xf32>) permutation = [0, 2, 3, 1]
  %v23 = tensor.collapse_shape %v22 [[0, 1], [2], [3]] : tensor<1x2x16x8xf32> into tensor<2x16x8xf32>
  %v24 = tensor.empty() : tensor<2x8x8xf32>
  %v25 = linalg.fill ins(%z : f32) outs(%v24 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %v26 = linalg.batch_matmul ins(%v19, %v23 : tensor<2x8x16xf32>, tensor<2x16x8xf32>) outs(%v25 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %v27 = tensor.empty() : tensor<2x8x8xf32>
  %v28 = linalg.exp ins(%v26 : tensor<2x8x8xf32>) outs(%v27 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %v29 = tensor.expand_shape %v15 [[0, 1], [2, 3]] output_shape [1, 8, 2, 16] : tensor<8x32xf32> into tensor<1x8x2x16xf32>
  %v30 = tensor.empty() : tensor<1x2x8x16xf32>
  %v31 = linalg.transpose ins(%v29 : tensor<1x8x2x16xf32>) outs(%v30 : tensor<1x2x8x16xf32>) permutation = [0, 2, 1, 3]
  %v32 = tensor.collapse_shape %v31 [[0, 1], [2], [3]] : tensor<1x2x8x16xf32> into tensor<2x8x16xf32>
  %v33 = tensor.empty() : tensor<2x8x16xf32>
  %v34 = linalg.fill ins(%z : f32) outs(%v33 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %v35 = linalg.batch_matmul ins(%v28, %v32 : tensor<2x8x8xf32>, tensor<2x8x16xf32>) outs(%v34 : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %v36 = tensor.expand_shape %v35 [[0, 1], [2], [3]] output_shape [1, 2, 8, 16] : tensor<2x8x16xf32> into tensor<1x2x8x16xf32>
  %v37 = tensor.empty() : tensor<1x8x2x16xf32>
  %v38 = linalg.transpose ins(%v36 : tensor<1x2x8x16xf32>) outs(%v37 : tensor<1x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %v39 = tensor.collapse_shape %v38 [[0, 1], [2, 3]] : tensor<1x8x2x16xf32> into tensor<8x32xf32>
  %v40 = tensor.empty() : tensor<8x32xf32>
  %v41 = linalg.fill ins(%z : f32) outs(%v40 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %v42 = linalg.matmul ins(%v39, %w6 : tensor<8x32xf32>, tensor<32x32xf32>) outs(%v41 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %v43 = tensor.empty() : tensor<8x32xf32>
  %v44 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%v42, %w7 : tensor<8x32xf32>, tensor<32xf32>) outs(%v43 : tensor<8x32xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %v44 : tensor<8x32xf32>
}
