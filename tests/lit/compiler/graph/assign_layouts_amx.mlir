// A tile sums 64 neighbours, so byte activations have blocks of 64 channels instead of the vector's number of sums.
// RUN: tessera-opt %s -tessera-generalize-named-ops -tessera-assign-layouts=target=sapphirerapids | FileCheck %s --check-prefix=TILES
// RUN: tessera-opt %s -tessera-generalize-named-ops -tessera-assign-layouts=lanes=16 | FileCheck %s --check-prefix=VECTORS

// TILES-LABEL: func.func @bottleneck
// TILES: linalg.generic {{.*}} outs({{.*}} : tensor<1x4x28x28x64xi8>)
// TILES: linalg.generic {{.*}}ins({{.*}} : tensor<1x4x28x28x64xi8>, {{.*}} outs({{.*}} : tensor<1x28x28x64xi32>)
// TILES: linalg.generic {{.*}}ins({{.*}} : tensor<1x28x28x64xi8>,
// VECTORS-LABEL: func.func @bottleneck
// VECTORS: linalg.generic {{.*}} outs({{.*}} : tensor<1x16x28x28x16xi8>)
// VECTORS-NOT: x64xi32>

#id = affine_map<(n, c, y, x) -> (n, c, y, x)>
func.func @bottleneck(%input: tensor<1x256x28x28xi8>) -> tensor<1x256x28x28xi8> {
  %reduce = arith.constant dense<3> : tensor<64x256x1x1xi8>
  %expand = arith.constant dense<2> : tensor<256x64x1x1xi8>
  %zero = arith.constant 0 : i32
  %narrow = tensor.empty() : tensor<1x64x28x28xi32>
  %start = linalg.fill ins(%zero : i32) outs(%narrow : tensor<1x64x28x28xi32>) -> tensor<1x64x28x28xi32>
  %sum = linalg.conv_2d_nchw_fchw ins(%input, %reduce : tensor<1x256x28x28xi8>, tensor<64x256x1x1xi8>) outs(%start : tensor<1x64x28x28xi32>) -> tensor<1x64x28x28xi32>
  %bytes = tensor.empty() : tensor<1x64x28x28xi8>
  %middle = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%sum : tensor<1x64x28x28xi32>) outs(%bytes : tensor<1x64x28x28xi8>) {
  ^bb0(%x: i32, %o: i8):
    %high = arith.constant 255 : i32
    %shift = arith.constant 8 : i32
    %q = arith.shrui %x, %shift : i32
    %cut = arith.minui %q, %high : i32
    %r = arith.trunci %cut : i32 to i8
    linalg.yield %r : i8
  } -> tensor<1x64x28x28xi8>
  %wide = tensor.empty() : tensor<1x256x28x28xi32>
  %begin = linalg.fill ins(%zero : i32) outs(%wide : tensor<1x256x28x28xi32>) -> tensor<1x256x28x28xi32>
  %more = linalg.conv_2d_nchw_fchw ins(%middle, %expand : tensor<1x64x28x28xi8>, tensor<256x64x1x1xi8>) outs(%begin : tensor<1x256x28x28xi32>) -> tensor<1x256x28x28xi32>
  %last = tensor.empty() : tensor<1x256x28x28xi8>
  %result = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%more : tensor<1x256x28x28xi32>) outs(%last : tensor<1x256x28x28xi8>) {
  ^bb0(%x: i32, %o: i8):
    %high = arith.constant 255 : i32
    %shift = arith.constant 8 : i32
    %q = arith.shrui %x, %shift : i32
    %cut = arith.minui %q, %high : i32
    %r = arith.trunci %cut : i32 to i8
    linalg.yield %r : i8
  } -> tensor<1x256x28x28xi8>
  return %result : tensor<1x256x28x28xi8>
}
