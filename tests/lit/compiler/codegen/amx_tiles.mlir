// Products on tile instructions, down to assembly: tile shapes are configured once around a phase of full tiles, and
// again around pieces at an edge. Operations after a product run on vectors of the sums, which tiles store on the
// stack.
// RUN: tessera-opt %s --tessera-emit=target=sapphirerapids | FileCheck %s
// RUN: tessera-opt %s --tessera-emit=target=sapphirerapids --tessera-lower | mlir-translate --mlir-to-llvmir | llc -mcpu=sapphirerapids -O2 | FileCheck %s --check-prefix=ASM

// CHECK: tessera.workspace_bytes = 0
// CHECK: func.func @whole_p0(
// CHECK-SAME: tessera.strategy = "contraction"

// ASM-LABEL: whole_p0_body:
// ASM: ldtilecfg
// ASM-NOT: ldtilecfg
// ASM: tilezero
// ASM: tileloadd
// ASM: tdpbusd
// ASM-NOT: ldtilecfg
// ASM: tilestored
// ASM-NOT: ldtilecfg
// ASM: vpmaxsd
// ASM: tilerelease
// ASM: vzeroupper
// ASM: ret

func.func @whole(%a: tensor<64x64x4xi8>, %b: tensor<64x64x4xi8>) -> tensor<64x64xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<64x64xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<64x64xi32>) -> tensor<64x64xi32>
  %p = linalg.generic {
      indexing_maps = [affine_map<(m, n, k, g) -> (m, k, g)>, affine_map<(m, n, k, g) -> (k, n, g)>, affine_map<(m, n, k, g) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%a, %b : tensor<64x64x4xi8>, tensor<64x64x4xi8>) outs(%f : tensor<64x64xi32>) {
    ^bb0(%x: i8, %y: i8, %o: i32):
      %u = arith.extui %x : i8 to i32
      %v = arith.extsi %y : i8 to i32
      %m = arith.muli %u, %v : i32
      %r = arith.addi %o, %m : i32
      linalg.yield %r : i32
  } -> tensor<64x64xi32>
  %q = linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<64x64xi32>) outs(%e : tensor<64x64xi32>) {
    ^bb0(%x: i32, %o: i32):
      %r = arith.maxsi %x, %zero : i32
      linalg.yield %r : i32
  } -> tensor<64x64xi32>
  return %q : tensor<64x64xi32>
}
