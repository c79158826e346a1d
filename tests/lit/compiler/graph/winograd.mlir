// RUN: tessera-opt %s -split-input-file -tessera-winograd -canonicalize | FileCheck %s

#in = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, c, y + r, x + s, j)>
#filter = affine_map<(n, k, y, x, i, c, r, s, j) -> (k, c, r, s, j, i)>
#out = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, k, y, x, i)>

// Blocks of 4 x 4 results from 6 x 6 inputs: both transforms, and the product for 36 positions. The filters' transform
// depends only on weights.
// CHECK-LABEL: @whole_blocks
// CHECK-SAME: %[[X:.*]]: tensor<1x8x58x58x16xf32>, %[[W:.*]]: tensor<8x8x3x3x16x16xf32>
// CHECK: %[[U:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %[[W]] : tensor<6x3xf32>, tensor<6x3xf32>
// CHECK-SAME: outs(%{{.*}} : tensor<6x6x8x8x16x16xf32>)
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %[[X]] : tensor<6x6xf32>, tensor<6x6xf32>
// CHECK-SAME: outs(%{{.*}} : tensor<6x6x8x1x14x14x16xf32>)
// CHECK-SAME: tessera.stage_of = 0
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[V]], %[[U]]
// CHECK-SAME: outs(%{{.*}} : tensor<6x6x8x1x14x14x16xf32>)
// CHECK-SAME: tessera.algorithm = "winograd-4x4", tessera.convolution = "conv2d 3x3 s1 128->128 56x56", {{.*}}tessera.stage_of = 0
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %[[M]] : tensor<4x6xf32>, tensor<4x6xf32>
// CHECK-SAME: outs(%{{.*}} : tensor<1x8x56x56x16xf32>)
// CHECK: return %[[Y]]
func.func @whole_blocks(%x: tensor<1x8x58x58x16xf32>, %w: tensor<8x8x3x3x16x16xf32> {tessera.weight = 0})
    -> tensor<1x8x56x56x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x56x56x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x56x56x16xf32>) -> tensor<1x8x56x56x16xf32>
  %y = linalg.generic {indexing_maps = [#in, #filter, #out], iterator_types = ["parallel", "parallel", "parallel",
      "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x8x58x58x16xf32>, tensor<8x8x3x3x16x16xf32>) outs(%f : tensor<1x8x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x8x56x56x16xf32>
  return %y : tensor<1x8x56x56x16xf32>
}

// -----

#in = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, c, y + r, x + s, j)>
#filter = affine_map<(n, k, y, x, i, c, r, s, j) -> (k, c, r, s, j, i)>
#out = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, k, y, x, i)>

// 26 x 27 results are 7 x 7 blocks: the existing padding grows, and extra results are sliced off.
// CHECK-LABEL: @odd_extents
// CHECK-COUNT-1: tensor.pad %{{.*}} low[0, 0, 1, 1, 0] high[0, 0, 3, 2, 0]
// CHECK-NOT: tensor.pad
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x8x28x28x16xf32>)
// CHECK: tensor.extract_slice %[[Y]][0, 0, 0, 0, 0] [1, 8, 26, 27, 16] [1, 1, 1, 1, 1]
func.func @odd_extents(%x: tensor<1x8x26x27x16xf32>, %w: tensor<8x8x3x3x16x16xf32> {tessera.weight = 0})
    -> tensor<1x8x26x27x16xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index):
    tensor.yield %z : f32
  } : tensor<1x8x26x27x16xf32> to tensor<1x8x28x29x16xf32>
  %e = tensor.empty() : tensor<1x8x26x27x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x26x27x16xf32>) -> tensor<1x8x26x27x16xf32>
  %y = linalg.generic {indexing_maps = [#in, #filter, #out], iterator_types = ["parallel", "parallel", "parallel",
      "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]}
      ins(%p, %w : tensor<1x8x28x29x16xf32>, tensor<8x8x3x3x16x16xf32>) outs(%f : tensor<1x8x26x27x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x8x26x27x16xf32>
  return %y : tensor<1x8x26x27x16xf32>
}

// -----

#in = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, c, y + r, x + s, j)>
#filter = affine_map<(n, k, y, x, i, c, r, s, j) -> (k, c, r, s, j, i)>
#out = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, k, y, x, i)>

// Too few blocks to pay for the larger filters: unchanged.
// CHECK-LABEL: @few_blocks
// CHECK-NOT: tessera.stage_of
// CHECK: return
func.func @few_blocks(%x: tensor<1x8x6x6x16xf32>, %w: tensor<8x8x3x3x16x16xf32> {tessera.weight = 0})
    -> tensor<1x8x4x4x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x4x4x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x4x4x16xf32>) -> tensor<1x8x4x4x16xf32>
  %y = linalg.generic {indexing_maps = [#in, #filter, #out], iterator_types = ["parallel", "parallel", "parallel",
      "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x8x6x6x16xf32>, tensor<8x8x3x3x16x16xf32>) outs(%f : tensor<1x8x4x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x8x4x4x16xf32>
  return %y : tensor<1x8x4x4x16xf32>
}

// -----

#in = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, c, y * 2 + r, x * 2 + s, j)>
#filter = affine_map<(n, k, y, x, i, c, r, s, j) -> (k, c, r, s, j, i)>
#out = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, k, y, x, i)>

// A stride of two, and filters that are not constant.
// CHECK-LABEL: @strided
// CHECK-NOT: tessera.stage_of
// CHECK-LABEL: @filters_from_outside
// CHECK-NOT: tessera.stage_of
func.func @strided(%x: tensor<1x8x57x57x16xf32>, %w: tensor<8x8x3x3x16x16xf32> {tessera.weight = 0})
    -> tensor<1x8x28x28x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x28x28x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x28x28x16xf32>) -> tensor<1x8x28x28x16xf32>
  %y = linalg.generic {indexing_maps = [#in, #filter, #out], iterator_types = ["parallel", "parallel", "parallel",
      "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x8x57x57x16xf32>, tensor<8x8x3x3x16x16xf32>) outs(%f : tensor<1x8x28x28x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x8x28x28x16xf32>
  return %y : tensor<1x8x28x28x16xf32>
}
#near = affine_map<(n, k, y, x, i, c, r, s, j) -> (n, c, y + r, x + s, j)>
func.func @filters_from_outside(%x: tensor<1x8x58x58x16xf32>, %w: tensor<8x8x3x3x16x16xf32>)
    -> tensor<1x8x56x56x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x56x56x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8x56x56x16xf32>) -> tensor<1x8x56x56x16xf32>
  %y = linalg.generic {indexing_maps = [#near, #filter, #out], iterator_types = ["parallel", "parallel", "parallel",
      "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x8x58x58x16xf32>, tensor<8x8x3x3x16x16xf32>) outs(%f : tensor<1x8x56x56x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x8x56x56x16xf32>
  return %y : tensor<1x8x56x56x16xf32>
}

// -----

#in = affine_map<(n, y, x, i, r, s, j) -> (n, y + r, x + s, j)>
#filter = affine_map<(n, y, x, i, r, s, j) -> (r, s, j, i)>
#out = affine_map<(n, y, x, i, r, s, j) -> (n, y, x, i)>

// All channels in one block: no stage has a loop over blocks. The existing padding grows in place, after the view.
// CHECK-LABEL: @one_block
// CHECK: %[[P:.*]] = tensor.pad %{{.*}} low[0, 0, 1, 1, 0] high[0, 0, 3, 2, 0]
// CHECK: %[[X:.*]] = tensor.collapse_shape %[[P]]
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %[[X]] : tensor<6x6xf32>, tensor<6x6xf32>, tensor<1x30x30x24xf32>)
// CHECK-SAME: outs(%{{.*}} : tensor<6x6x1x7x7x24xf32>)
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[V]], %{{.*}} : tensor<6x6x1x7x7x24xf32>, tensor<6x6x24x40xf32>)
// CHECK-SAME: outs(%{{.*}} : tensor<6x6x1x7x7x40xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x28x28x40xf32>)
// CHECK: tensor.extract_slice %[[Y]][0, 0, 0, 0] [1, 26, 27, 40] [1, 1, 1, 1]
func.func @one_block(%x: tensor<1x1x26x27x24xf32>, %w: tensor<3x3x24x40xf32> {tessera.weight = 0})
    -> tensor<1x26x27x40xf32> {
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index):
    tensor.yield %z : f32
  } : tensor<1x1x26x27x24xf32> to tensor<1x1x28x29x24xf32>
  %c = tensor.collapse_shape %p [[0, 1], [2], [3], [4]] : tensor<1x1x28x29x24xf32> into tensor<1x28x29x24xf32>
  %e = tensor.empty() : tensor<1x26x27x40xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x26x27x40xf32>) -> tensor<1x26x27x40xf32>
  %y = linalg.generic {indexing_maps = [#in, #filter, #out], iterator_types = ["parallel", "parallel", "parallel",
      "parallel", "reduction", "reduction", "reduction"]}
      ins(%c, %w : tensor<1x28x29x24xf32>, tensor<3x3x24x40xf32>) outs(%f : tensor<1x26x27x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x26x27x40xf32>
  return %y : tensor<1x26x27x40xf32>
}
