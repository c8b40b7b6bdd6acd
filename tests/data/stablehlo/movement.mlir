module @systole attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<f32>) -> (tensor<6x4xf32>, tensor<2x2xf32>, tensor<5x12xf32>) {
    %0 = "stablehlo.transpose"(%arg0) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %1 = "stablehlo.slice"(%arg0) {start_indices = array<i64: 1, 0>, limit_indices = array<i64: 4, 6>, strides = array<i64: 2, 3>} : (tensor<4x6xf32>) -> tensor<2x2xf32>
    %2 = "stablehlo.pad"(%arg0, %arg1) {edge_padding_low = array<i64: 1, -1>, edge_padding_high = array<i64: 0, 2>, interior_padding = array<i64: 0, 1>} : (tensor<4x6xf32>, tensor<f32>) -> tensor<5x12xf32>
    "func.return"(%0, %1, %2) : (tensor<6x4xf32>, tensor<2x2xf32>, tensor<5x12xf32>) -> ()
  }
}
