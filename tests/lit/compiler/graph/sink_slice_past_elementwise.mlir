// RUN: tessera-opt %s -split-input-file -tessera-cut-behind-followers | FileCheck %s

#id = affine_map<(n, y, x, k) -> (n, y, x, k)>
#bias = affine_map<(n, y, x, k) -> (k)>
#in = affine_map<(n, y, x, k, c) -> (n, y, x, c)>
#filter = affine_map<(n, y, x, k, c) -> (c, k)>
#out = affine_map<(n, y, x, k, c) -> (n, y, x, k)>

// Bias and ReLU compute the padded blocks; the next product reads a slice of them.
// CHECK-LABEL: @followed
// CHECK: %[[S:.*]] = linalg.generic {{.*}}tessera.stage_of = 0
// CHECK: %[[F:.*]] = linalg.generic {{.*}} ins(%[[S]], %{{.*}} : tensor<1x8x8x16xf32>, tensor<16xf32>)
// CHECK: %[[C:.*]] = tensor.extract_slice %[[F]][0, 0, 0, 0] [1, 7, 7, 16] [1, 1, 1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[C]], %{{.*}} : tensor<1x7x7x16xf32>, tensor<16x8xf32>)
func.func @followed(%x: tensor<1x8x8x16xf32>, %b: tensor<16xf32>, %w: tensor<16x8xf32>) -> tensor<1x7x7x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x8x8x16xf32>) outs(%e : tensor<1x8x8x16xf32>) attrs = {tessera.stage_of = 0 : i64} {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x8x8x16xf32>
  %c = tensor.extract_slice %s[0, 0, 0, 0] [1, 7, 7, 16] [1, 1, 1, 1] : tensor<1x8x8x16xf32> to tensor<1x7x7x16xf32>
  %e1 = tensor.empty() : tensor<1x7x7x16xf32>
  %r = linalg.generic {indexing_maps = [#id, #bias, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%c, %b : tensor<1x7x7x16xf32>, tensor<16xf32>) outs(%e1 : tensor<1x7x7x16xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %t = arith.addf %a, %v : f32
    %m = arith.maximumf %t, %z : f32
    linalg.yield %m : f32
  } -> tensor<1x7x7x16xf32>
  %e2 = tensor.empty() : tensor<1x7x7x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e2 : tensor<1x7x7x8xf32>) -> tensor<1x7x7x8xf32>
  %y = linalg.generic {indexing_maps = [#in, #filter, #out],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%r, %w : tensor<1x7x7x16xf32>, tensor<16x8xf32>) outs(%f : tensor<1x7x7x8xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %m = arith.mulf %a, %v : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<1x7x7x8xf32>
  return %y : tensor<1x7x7x8xf32>
}

// -----

#id = affine_map<(n, y, x, k) -> (n, y, x, k)>

// The caller would copy a slice of a larger tensor; the elementwise user gives the result its own buffer.
// CHECK-LABEL: @returned
// CHECK: %[[C:.*]] = tensor.extract_slice
// CHECK: linalg.generic {{.*}} ins(%[[C]] : tensor<1x7x7x16xf32>)
func.func @returned(%x: tensor<1x8x8x16xf32>) -> tensor<1x7x7x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x8x8x16xf32>) outs(%e : tensor<1x8x8x16xf32>) attrs = {tessera.stage_of = 0 : i64} {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x8x8x16xf32>
  %c = tensor.extract_slice %s[0, 0, 0, 0] [1, 7, 7, 16] [1, 1, 1, 1] : tensor<1x8x8x16xf32> to tensor<1x7x7x16xf32>
  %e1 = tensor.empty() : tensor<1x7x7x16xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%c : tensor<1x7x7x16xf32>) outs(%e1 : tensor<1x7x7x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %z : f32
    linalg.yield %m : f32
  } -> tensor<1x7x7x16xf32>
  return %r : tensor<1x7x7x16xf32>
}

// -----

#id = affine_map<(n, y, x, k) -> (n, y, x, k)>

// A residual has no values for rows that are sliced off.
// CHECK-LABEL: @residual
// CHECK: %[[C:.*]] = tensor.extract_slice
// CHECK: linalg.generic {{.*}} ins(%[[C]], %{{.*}} : tensor<1x7x7x16xf32>, tensor<1x7x7x16xf32>)
func.func @residual(%x: tensor<1x8x8x16xf32>, %r: tensor<1x7x7x16xf32>) -> tensor<1x9x9x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x8x8x16xf32>) outs(%e : tensor<1x8x8x16xf32>) attrs = {tessera.stage_of = 0 : i64} {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x8x8x16xf32>
  %c = tensor.extract_slice %s[0, 0, 0, 0] [1, 7, 7, 16] [1, 1, 1, 1] : tensor<1x8x8x16xf32> to tensor<1x7x7x16xf32>
  %e1 = tensor.empty() : tensor<1x7x7x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%c, %r : tensor<1x7x7x16xf32>, tensor<1x7x7x16xf32>) outs(%e1 : tensor<1x7x7x16xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %m = arith.addf %a, %v : f32
    linalg.yield %m : f32
  } -> tensor<1x7x7x16xf32>
  %p = tensor.pad %y low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %z : f32
  } : tensor<1x7x7x16xf32> to tensor<1x9x9x16xf32>
  return %p : tensor<1x9x9x16xf32>
}
