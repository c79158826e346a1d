// A convolution, its bias and ReLU, and the halo of the next one: no temporary, no copy, one phase.
// RUN: tessera-opt %s --tessera-bufferize | FileCheck %s --check-prefix=BUF
// RUN: tessera-opt %s --tessera-emit | FileCheck %s --check-prefix=EMIT
// RUN: tessera-opt %s --tessera-emit="vector-bits=256 vector-registers=16" | FileCheck %s --check-prefix=YMM

// BUF-LABEL: func.func @conv
// BUF-SAME: %[[OUT:[a-z0-9]+]]: memref<1x3x9x9x16xf32>)
// BUF: linalg.fill {{.*}} outs(%[[OUT]]
// BUF: %[[VIEW:.*]] = memref.subview %[[OUT]][0, 0, 1, 1, 0]
// BUF: linalg.generic {{.*}} outs(%[[VIEW]]
// BUF-NOT: memref.copy

// EMIT: module attributes {tessera.workspace_bytes = 0 : i64}
// EMIT: func.func private @conv_p0_body
// EMIT-SAME: llvm.noalias
// EMIT: math.fma {{.*}} : vector<16xf32>
// EMIT: arith.maximumf {{.*}} : vector<16xf32>
// EMIT: func.func @conv_p0(
// EMIT-SAME: tessera.strategy = "contraction"
// EMIT-NOT: @conv_p1

// YMM: math.fma {{.*}} : vector<8xf32>
// YMM-NOT: vector<16xf32>

#in = affine_map<(n, k, h, w, ki, c, kh, kw, ci) -> (n, c, h + kh, w + kw, ci)>
#filter = affine_map<(n, k, h, w, ki, c, kh, kw, ci) -> (k, c, kh, kw, ci, ki)>
#out = affine_map<(n, k, h, w, ki, c, kh, kw, ci) -> (n, k, h, w, ki)>
#id = affine_map<(n, k, h, w, ki) -> (n, k, h, w, ki)>
#bias = affine_map<(n, k, h, w, ki) -> (k, ki)>
func.func @conv(%in: tensor<1x2x9x9x16xf32>, %filter: tensor<3x2x3x3x16x16xf32>, %bias: tensor<3x16xf32>)
    -> tensor<1x3x9x9x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3x7x7x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x7x7x16xf32>) -> tensor<1x3x7x7x16xf32>
  %c = linalg.generic {indexing_maps = [#in, #filter, #out],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]}
      ins(%in, %filter : tensor<1x2x9x9x16xf32>, tensor<3x2x3x3x16x16xf32>) outs(%f : tensor<1x3x7x7x16xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %acc, %m : f32
      linalg.yield %s : f32
  } -> tensor<1x3x7x7x16xf32>
  %r = linalg.generic {indexing_maps = [#id, #bias, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%c, %bias : tensor<1x3x7x7x16xf32>, tensor<3x16xf32>) outs(%e : tensor<1x3x7x7x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %m = arith.maximumf %s, %zero : f32
      linalg.yield %m : f32
  } -> tensor<1x3x7x7x16xf32>
  %p = tensor.pad %r low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0] {
    ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index):
      tensor.yield %zero : f32
  } : tensor<1x3x7x7x16xf32> to tensor<1x3x9x9x16xf32>
  return %p : tensor<1x3x9x9x16xf32>
}
