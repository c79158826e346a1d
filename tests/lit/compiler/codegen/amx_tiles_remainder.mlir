// bf16 on tiles where neither rows, columns nor the reduction fill whole tiles: remainder pieces set their own shapes
// and restore the usual ones; the remainder of the reduction uses its own tiles, 6 and 7.
// RUN: tessera-opt %s --tessera-emit=target=sapphirerapids --tessera-lower | mlir-translate --mlir-to-llvmir | llc -mcpu=sapphirerapids -O2 | FileCheck %s

// CHECK-LABEL: ragged_p0_body:
// CHECK: ldtilecfg
// CHECK: tileloadd {{.*}}, %tmm4
// CHECK: tileloadd {{.*}}, %tmm6
// CHECK: tdpbf16ps %tmm7, %tmm6, %tmm{{[0-3]}}
// CHECK: tilestored
// CHECK: ldtilecfg
// CHECK: tdpbf16ps
// CHECK: ldtilecfg
// CHECK: tilerelease

func.func @ragged(%a: tensor<67x37x2xbf16>, %b: tensor<37x71x2xbf16>) -> tensor<67x71xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<67x71xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<67x71xf32>) -> tensor<67x71xf32>
  %p = linalg.generic {
      indexing_maps = [affine_map<(m, n, k, g) -> (m, k, g)>, affine_map<(m, n, k, g) -> (k, n, g)>, affine_map<(m, n, k, g) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%a, %b : tensor<67x37x2xbf16>, tensor<37x71x2xbf16>) outs(%f : tensor<67x71xf32>) {
    ^bb0(%x: bf16, %y: bf16, %o: f32):
      %u = arith.extf %x : bf16 to f32
      %v = arith.extf %y : bf16 to f32
      %m = arith.mulf %u, %v : f32
      %r = arith.addf %o, %m : f32
      linalg.yield %r : f32
  } -> tensor<67x71xf32>
  return %p : tensor<67x71xf32>
}
