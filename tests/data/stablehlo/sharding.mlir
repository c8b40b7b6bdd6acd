module @systole attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}"}, %arg1: tensor<16x12xf32> {mhlo.sharding = "{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}", tf.aliasing_output = 1 : i32}) -> (tensor<8x12xf32> {mhlo.sharding = "{devices=[2,2]0,1,2,3}"}, tensor<16x12xf32> {mhlo.sharding = "{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}"}) {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
    %1 = "stablehlo.custom_call"(%0) {call_target_name = "Sharding", mhlo.sharding = "{devices=[2,2]0,1,2,3}"} : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %2 = "stablehlo.negate"(%arg1) : (tensor<16x12xf32>) -> tensor<16x12xf32>
    %3 = "stablehlo.custom_call"(%2) {call_target_name = "Sharding", mhlo.sharding = "{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}"} : (tensor<16x12xf32>) -> tensor<16x12xf32>
    "func.return"(%1, %3) : (tensor<8x12xf32>, tensor<16x12xf32>) -> ()
  }
}
