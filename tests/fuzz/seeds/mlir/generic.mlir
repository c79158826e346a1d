#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @sums(%x: tensor<2x3xi32>) -> tensor<2xi32> {
  %init = arith.constant dense<[1, -2]> : tensor<2xi32>
  %y = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<2x3xi32>) outs(%init : tensor<2xi32>) {
  ^bb0(%in: i32, %sum: i32):
    %next = arith.addi %in, %sum : i32
    linalg.yield %next : i32
  } -> tensor<2xi32>
  return %y : tensor<2xi32>
}
