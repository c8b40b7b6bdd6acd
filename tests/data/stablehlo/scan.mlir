module @systole attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<f32>, %arg1: tensor<4xf32>, %arg2: tensor<f32>) -> (tensor<f32>, tensor<4xf32>) {
    %0 = "stablehlo.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
    %1 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %2:5 = "stablehlo.while"(%1, %arg0, %0, %arg1, %arg2) ({
    ^bb0(%3: tensor<i32>, %4: tensor<f32>, %5: tensor<4xf32>, %6: tensor<4xf32>, %7: tensor<f32>):
      %8 = "stablehlo.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
      %9 = "stablehlo.compare"(%3, %8) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%9) : (tensor<i1>) -> ()
    }, {
    ^bb0(%10: tensor<i32>, %11: tensor<f32>, %12: tensor<4xf32>, %13: tensor<4xf32>, %14: tensor<f32>):
      %15 = "stablehlo.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
      %16 = "stablehlo.subtract"(%15, %10) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %17 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
      %18 = "stablehlo.dynamic_slice"(%13, %16) {slice_sizes = array<i64: 1>} : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
      %19 = "stablehlo.reshape"(%18) : (tensor<1xf32>) -> tensor<f32>
      %20 = "stablehlo.multiply"(%19, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %21 = "stablehlo.add"(%11, %20) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %22 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
      %23 = "stablehlo.add"(%10, %22) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %24 = "stablehlo.reshape"(%20) : (tensor<f32>) -> tensor<1xf32>
      %25 = "stablehlo.dynamic_update_slice"(%12, %24, %16) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
      "stablehlo.return"(%23, %21, %25, %13, %14) : (tensor<i32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> ()
    }) : (tensor<i32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<i32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>)
    "func.return"(%2#1, %2#2) : (tensor<f32>, tensor<4xf32>) -> ()
  }
}
