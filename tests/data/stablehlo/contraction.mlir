module @systole attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x4x5xf32>, %arg2: tensor<1x8x9x4xbf16>, %arg3: tensor<3x3x2x6xbf16>) -> (tensor<2x3x5xf32>, tensor<1x4x7x6xbf16>) {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    %1 = "stablehlo.reverse"(%arg3) {dimensions = array<i64: 1>} : (tensor<3x3x2x6xbf16>) -> tensor<3x3x2x6xbf16>
    %2 = "stablehlo.convolution"(%arg2, %1) {window_strides = array<i64: 2, 1>, padding = dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 2>, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64, batch_group_count = 1 : i64} : (tensor<1x8x9x4xbf16>, tensor<3x3x2x6xbf16>) -> tensor<1x4x7x6xbf16>
    "func.return"(%0, %2) : (tensor<2x3x5xf32>, tensor<1x4x7x6xbf16>) -> ()
  }
}
