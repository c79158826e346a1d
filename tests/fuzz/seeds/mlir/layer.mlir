func.func @layer(%x: tensor<5x7xf32> {tessera.input = "x"}, %w: tensor<7x9xf32>) -> (tensor<5x9xf32> {tessera.output = "y"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<5x9xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x9xf32>) -> tensor<5x9xf32>
  %product = linalg.matmul ins(%x, %w : tensor<5x7xf32>, tensor<7x9xf32>) outs(%init : tensor<5x9xf32>) -> tensor<5x9xf32>
  %y = math.tanh %product : tensor<5x9xf32>
  return %y : tensor<5x9xf32>
}
