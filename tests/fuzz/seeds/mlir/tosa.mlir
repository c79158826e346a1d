func.func @main(%a: tensor<1x4xf32>, %b: tensor<3x1xf32>) -> tensor<3x4xf32> {
  %c = tosa.add %a, %b : (tensor<1x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  %d = tosa.clamp %c {min_val = 0.0 : f32, max_val = 6.0 : f32} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %d : tensor<3x4xf32>
}
