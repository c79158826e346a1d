// RUN: tessera-opt %s -split-input-file -tessera-generalize-named-ops -tessera-pack-matmuls -canonicalize | FileCheck %s

// CHECK-LABEL: @panels
// CHECK: ins({{.*}} : tensor<5x17xf32>, tensor<3x17x32xf32>) outs({{.*}} : tensor<5x3x32xf32>)
// CHECK: tensor.collapse_shape {{.*}} : tensor<5x3x32xf32> into tensor<5x96xf32>
func.func @panels(%x: tensor<5x17xf32>, %w: tensor<17x96xf32> {tessera.weight = 0 : i64}) -> tensor<5x96xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x96xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<5x96xf32>) -> tensor<5x96xf32>
  %r = linalg.matmul ins(%x, %w : tensor<5x17xf32>, tensor<17x96xf32>) outs(%f : tensor<5x96xf32>) -> tensor<5x96xf32>
  return %r : tensor<5x96xf32>
}

// -----

// No panel width divides 10 columns.
// CHECK-LABEL: @too_narrow
// CHECK: ins({{.*}} : tensor<5x17xf32>, tensor<17x10xf32>)
func.func @too_narrow(%x: tensor<5x17xf32>, %w: tensor<17x10xf32> {tessera.weight = 0 : i64}) -> tensor<5x10xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x10xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<5x10xf32>) -> tensor<5x10xf32>
  %r = linalg.matmul ins(%x, %w : tensor<5x17xf32>, tensor<17x10xf32>) outs(%f : tensor<5x10xf32>) -> tensor<5x10xf32>
  return %r : tensor<5x10xf32>
}

// -----

// [N, K], as exporters write fully connected layers: packed to the same panels.
// CHECK-LABEL: @transposed_weights
// CHECK: ins({{.*}} : tensor<5x17xf32>, tensor<3x17x32xf32>) outs({{.*}} : tensor<5x3x32xf32>)
func.func @transposed_weights(%x: tensor<5x17xf32>, %w: tensor<96x17xf32> {tessera.weight = 0 : i64}) -> tensor<5x96xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x96xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<5x96xf32>) -> tensor<5x96xf32>
  %r = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<5x17xf32>, tensor<96x17xf32>) outs(%f : tensor<5x96xf32>) -> tensor<5x96xf32>
  return %r : tensor<5x96xf32>
}

// -----

// Packing a run-time matrix would be a copy.
// CHECK-LABEL: @run_time_matrix
// CHECK: ins({{.*}} : tensor<5x17xf32>, tensor<17x96xf32>) outs({{.*}} : tensor<5x96xf32>)
func.func @run_time_matrix(%x: tensor<5x17xf32>, %w: tensor<17x96xf32>) -> tensor<5x96xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x96xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<5x96xf32>) -> tensor<5x96xf32>
  %r = linalg.matmul ins(%x, %w : tensor<5x17xf32>, tensor<17x96xf32>) outs(%f : tensor<5x96xf32>) -> tensor<5x96xf32>
  return %r : tensor<5x96xf32>
}

// -----

// Many rows, and columns that no width divides: the last panel is padded, and its extra columns are sliced off.
// CHECK-LABEL: @filled_up
// CHECK: ins({{.*}} : tensor<48x5xf32>, tensor<17x5x16xf32>) outs({{.*}} : tensor<48x17x16xf32>)
// CHECK: tensor.extract_slice {{.*}}[0, 0] [48, 263] [1, 1] : tensor<48x272xf32> to tensor<48x263xf32>
func.func @filled_up(%x: tensor<48x5xf32>, %w: tensor<5x263xf32> {tessera.weight = 0 : i64}) -> tensor<48x263xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x263xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<48x263xf32>) -> tensor<48x263xf32>
  %r = linalg.matmul ins(%x, %w : tensor<48x5xf32>, tensor<5x263xf32>) outs(%f : tensor<48x263xf32>) -> tensor<48x263xf32>
  return %r : tensor<48x263xf32>
}

// -----

// Half empty vectors: the following operation and its constant are padded too, and sliced afterwards.
// CHECK-LABEL: @filled_up_with_its_bias
// CHECK: ins({{.*}} : tensor<48x40xf32>, tensor<5x40x16xf32>) outs({{.*}} : tensor<48x5x16xf32>)
// CHECK: tensor.pad {{.*}} high[8]
// CHECK: ins({{.*}} : tensor<48x80xf32>, tensor<80xf32>) outs({{.*}} : tensor<48x80xf32>)
// CHECK: tensor.extract_slice {{.*}}[0, 0] [48, 72] [1, 1] : tensor<48x80xf32> to tensor<48x72xf32>
func.func @filled_up_with_its_bias(%x: tensor<48x40xf32>, %w: tensor<40x72xf32> {tessera.weight = 0 : i64},
                                   %b: tensor<72xf32> {tessera.weight = 1 : i64}) -> tensor<48x72xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x72xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<48x72xf32>) -> tensor<48x72xf32>
  %r = linalg.matmul ins(%x, %w : tensor<48x40xf32>, tensor<40x72xf32>) outs(%f : tensor<48x72xf32>) -> tensor<48x72xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<48x72xf32>, tensor<72xf32>) outs(%e : tensor<48x72xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %k = arith.addf %i, %j : f32
    linalg.yield %k : f32
  } -> tensor<48x72xf32>
  return %s : tensor<48x72xf32>
}

// -----

// Integers are not divided by the zeros of padded columns.
// CHECK-LABEL: @no_division_by_what_fills_up
// CHECK: tensor.extract_slice {{.*}} : tensor<48x80xi32> to tensor<48x72xi32>
// CHECK: divsi
func.func @no_division_by_what_fills_up(%x: tensor<48x400xi32>, %w: tensor<400x72xi32> {tessera.weight = 0 : i64},
                                        %b: tensor<72xi32> {tessera.weight = 1 : i64}) -> tensor<48x72xi32> {
  %z = arith.constant 0 : i32
  %e = tensor.empty() : tensor<48x72xi32>
  %f = linalg.fill ins(%z : i32) outs(%e : tensor<48x72xi32>) -> tensor<48x72xi32>
  %r = linalg.matmul ins(%x, %w : tensor<48x400xi32>, tensor<400x72xi32>) outs(%f : tensor<48x72xi32>) -> tensor<48x72xi32>
  %s = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]} ins(%r, %b : tensor<48x72xi32>, tensor<72xi32>) outs(%e : tensor<48x72xi32>) {
  ^bb0(%i: i32, %j: i32, %o: i32):
    %k = arith.divsi %i, %j : i32
    linalg.yield %k : i32
  } -> tensor<48x72xi32>
  return %s : tensor<48x72xi32>
}
