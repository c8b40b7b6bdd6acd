module @systole attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  func.func public @main(%arg0: tensor<6xf32>, %arg1: tensor<6xi32>) -> (tensor<6xf32>, tensor<6xi32>, tensor<12xf32>, tensor<3xf32>, tensor<6xf32>, tensor<6xf32>, tensor<ui32>) {
    %0 = "stablehlo.all_reduce"(%arg0) ({
    ^bb0(%1: tensor<f32>, %2: tensor<f32>):
      %3 = "stablehlo.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) {replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>} : (tensor<6xf32>) -> tensor<6xf32>
    %4 = "stablehlo.reshape"(%arg1) : (tensor<6xi32>) -> tensor<1x6xi32>
    %5 = "stablehlo.all_gather"(%4) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<1x6xi32>) -> tensor<4x6xi32>
    %6 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %7 = "stablehlo.reduce"(%5, %6) ({
    ^bb0(%8: tensor<i32>, %9: tensor<i32>):
      %10 = "stablehlo.or"(%8, %9) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%10) : (tensor<i32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<4x6xi32>, tensor<i32>) -> tensor<6xi32>
    %11 = "stablehlo.all_gather"(%arg0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<6xf32>) -> tensor<12xf32>
    %12 = "stablehlo.reduce_scatter"(%arg0) ({
    ^bb0(%13: tensor<f32>, %14: tensor<f32>):
      %15 = "stablehlo.maximum"(%13, %14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%15) : (tensor<f32>) -> ()
    }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<6xf32>) -> tensor<3xf32>
    %16 = "stablehlo.all_to_all"(%arg0) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>} : (tensor<6xf32>) -> tensor<6xf32>
    %17 = "stablehlo.collective_permute"(%arg0) {source_target_pairs = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<6xf32>) -> tensor<6xf32>
    %18 = "stablehlo.replica_id"() : () -> tensor<ui32>
    %19 = "stablehlo.convert"(%18) : (tensor<ui32>) -> tensor<i32>
    %20 = "stablehlo.constant"() {value = dense<[0, 1, 0, 1]> : tensor<4xui32>} : () -> tensor<4xui32>
    %21 = "stablehlo.dynamic_slice"(%20, %19) {slice_sizes = array<i64: 1>} : (tensor<4xui32>, tensor<i32>) -> tensor<1xui32>
    %22 = "stablehlo.reshape"(%21) : (tensor<1xui32>) -> tensor<ui32>
    "func.return"(%0, %7, %11, %12, %16, %17, %22) : (tensor<6xf32>, tensor<6xi32>, tensor<12xf32>, tensor<3xf32>, tensor<6xf32>, tensor<6xf32>, tensor<ui32>) -> ()
  }
}
