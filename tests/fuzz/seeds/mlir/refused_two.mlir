func.func @f() { return }
func.func private @g() -> tensor<1xf32>
