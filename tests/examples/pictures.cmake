# The examples of pictures. Without data they draw their own, the same on every machine. A guess among ten is right one
# time in ten, with a loss of ln 10 = 2.303.
systole_add_example(mnist_mlp mnist_mlp_learns_drawn_digits
  "3000 samples.*101,770 trainable.*test accuracy 0\\.[89][0-9]+ loss 0\\." --train 3000 --test 500 --epochs 5)
# The slopes and the offset that the points were made with are 3, -2 and 0.5.
systole_add_example(optimizers_by_hand optimizers_by_hand_agree_with_the_library
  "Adam: θ = . *(2\\.9[0-9]+|3\\.0[0-9]*), +-(1\\.9|2\\.0)[0-9]*, +0\\.(49|5[0-3])[0-9]*.*at most [0-9.]+e-1[0-9]"
  --steps 1000 --out optimizers.svg)
systole_add_example(cifar_lenet cifar_lenet_reports_and_learns
  "\\[1, +20\\] loss: 2\\.3.*\\[10, +20\\] loss: [01]\\..*test accuracy 0\\.[4-9]"
  --train 2000 --test 500 --epochs 10 --lr 0.05 --every 20)
systole_add_example(cifar_convnet cifar_convnet_learns_drawn_pictures
  "\\[1, +5\\] loss: 2\\.[23].*Accuracy on 500 test pictures: ([5-9][0-9]|100)\\."
  --train 1280 --test 500 --epochs 3 --lr 0.02 --every 5)
systole_add_example(cifar_convnet_xla cifar_convnet_xla_runs_the_same_network
  "Running on (pjrt:cpu:0|tpu:0|cpu).*\\[2, +10\\] loss: [12]\\..*Accuracy on 500 test pictures: [2-9][0-9]\\."
  --train 1280 --test 500 --epochs 2 --lr 0.02)
systole_add_example(cifar_keras_gpu cifar_keras_gpu_draws_its_history
  "val_accuracy.*test accuracy 0\\.[5-9].*keras_history\\.svg"
  --train 1280 --test 300 --epochs 3 --device cpu --out keras_history.svg)
systole_add_example(cifar_tpu cifar_tpu_trains_on_a_mesh
  "The weights are on 4 devices.*test accuracy 0\\.[0-9]+ loss 2\\.[23][0-9]+ .8 pictures"
  --train 32 --test 8 --epochs 1 --steps 2 --batch 8 --devices 4)
systole_add_example(mnist_cnn_tpu mnist_cnn_tpu_trains_on_a_mesh
  "on 4 × .*val_loss.*test accuracy 0\\.[0-9]+ loss [12]\\.[0-9]+ .16 pictures"
  --train 64 --test 16 --epochs 1 --batch 16 --devices 4)
systole_add_example(mnist_cnn_tpu mnist_cnn_tpu_learns_on_one_device "test accuracy 0\\.[89]"
  --train 2000 --test 500 --epochs 2 --batch 64 --device cpu --devices 1)
foreach(model lenet convnet keras-cnn)
  systole_add_example(cifar10 cifar10_learns_with_${model} "disc +[01]\\..*test accuracy 0\\.[4-9]"
    --model ${model} --train 1600 --test 200 --epochs 4 --batch 32)
endforeach()
systole_add_example(cifar10 cifar10_runs_with_resnet18 "resnet18, 11173962 parameters.*test accuracy 0\\."
  --model resnet18 --train 64 --test 20 --epochs 1 --batch 32)
systole_add_example(unet unet_finds_the_lesions "test dice 0\\.[89][0-9]+ iou 0\\.[6-9]"
  --train 128 --test 48 --side 32 --epochs 12 --batch 8)
# 512 · 10 + 10 numbers of the new head; 8,393,728 more of layer4.
systole_add_example(resnet_finetune resnet_finetune_trains_the_head_and_then_the_last_stage
  "training 5130 of .*new head.*training 8398858 of .*last stage.*first stage is as it was"
  --side 32 --train 160 --epochs 1)
set_tests_properties(examples.cifar_convnet_xla_runs_the_same_network examples.cifar_tpu_trains_on_a_mesh
  examples.mnist_cnn_tpu_trains_on_a_mesh PROPERTIES ENVIRONMENT "${plugins}")

# The real pictures, where they are at hand.
if(NOT DEFINED ENV{SYSTOLE_SHARED})
  set(shared ${PROJECT_SOURCE_DIR}/../shared)
else()
  set(shared $ENV{SYSTOLE_SHARED})
endif()
if(EXISTS ${shared}/data/mnist)
  systole_add_example(mnist_mlp mnist_mlp_reads_mnist "mnist: 512 samples.*test accuracy 0\\.[67]"
    --data ${shared}/data/mnist --train 512 --test 512 --epochs 2)
endif()
if(EXISTS ${shared}/data/cifar-10)
  systole_add_example(cifar10 cifar10_reads_cifar_10 "airplane +[01]\\..*test accuracy 0\\.[1-4]"
    --model lenet --data ${shared}/data/cifar-10 --train 512 --test 512 --epochs 4 --batch 16)
endif()
