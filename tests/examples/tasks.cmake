# Text, tables and sound: each program small on made-up data, and on the real data where that is there.

systole_add_example(char_gpt char_gpt_learns_a_rhyme
  "validation loss [01]\\.[0-9]+, of a guess among [0-9]+ characters 3\\.[0-9]+\n---\nTh"
  --layers 2 --width 64 --length 32 --steps 80 --write 60)
systole_add_example(text_lstm text_lstm_understands_not
  "test accuracy (0\\.9[5-9]|1\\.0).*lovely: kind\n.*not lovely: unkind\n.*far from dull: kind" --count 2500 --epochs 5)
systole_add_example(audio_digits audio_digits_hears_the_keys_of_a_telephone
  "150 recordings to learn from, 50 .*test accuracy (0\\.9|1\\.0)" --count 20 --epochs 8)
systole_add_example(credit_default credit_default_says_who_pays "4800 to learn from.*test AUC 0\\.[789]" --epochs 3)
systole_add_example(breast_cancer breast_cancer_is_tested_on_every_fold
  "fold 3: 26[67] rows to learn from, 13[34] .*mean accuracy (0\\.9[3-9]|1\\.0)" --folds 3 --epochs 10)
systole_add_example(word_vectors word_vectors_have_their_kind_as_neighbours
  "\ncat:( (dog|horse|cow|rabbit) 0\\.[0-9]+)+\napple:( (pear|plum|cherry|peach) 0\\.[0-9]+)+\nparis:( (london|rome|madrid|vienna) 0\\.[0-9]+)+\n"
  --epochs 3)
systole_add_example(translation translation_follows_the_grammar
  "exact translations of 400 unseen sentences: (0\\.9[5-9]|1\\.0)" --count 4000 --epochs 8 --layers 1)
# The noise has a deviation of 0.25.
systole_add_example(recommender recommender_comes_near_the_noise "test RMSE 0\\.(2[4-9]|30).*user 0 would give" --epochs 10)
systole_add_example(time_series time_series_beats_the_naive_forecast "naive forecast [0-9.]+: [1-9][0-9] % less" --epochs 10)
systole_add_example(fraud fraud_is_found
  "precision 0\\.[5-9][0-9]+, recall 0\\.[5-9][0-9]+, F1 0\\.[5-9][0-9]+, AUC 0\\.9")

# Even odds at each pixel are 784·ln 2 nats. The same training in NumPy leaves 330, 263 and 255 of drawn digits.
systole_add_example(vae vae_learns_a_code "untrained: 5[345][0-9]\\.[0-9] nats.*epoch 3: 2[45][0-9]\\.[0-9] nats.*vae\\.png"
  --train 3000 --epochs 3)
# 2·ln 2 and ln 2 before anything is learned.
systole_add_example(dcgan dcgan_trains_both_nets
  "first step: discriminator 1\\.[34][0-9]+, generator 0\\.[67][0-9]+.*epoch 1: discriminator [01]\\..*dcgan\\.png" --train 1024 --epochs 1)
# 22 steps by chance; the longest are 200.
systole_add_example(reinforce reinforce_balances_the_pole
  "iteration 1: the pole stood for (1[5-9]|2[0-9]|3[0-5])\\..*iteration 60: the pole stood for (1[0-9][0-9]|200)\\.")
systole_add_example(serve_threads serve_threads_answers_every_client "1000 answers, 0 wrong" --requests 1000)

# systole_add_example_on(file example name expression [argument…]): with --data shared/data/FILE; skipped where it is not.
set(shared ${PROJECT_SOURCE_DIR}/../shared)
if(DEFINED ENV{SYSTOLE_SHARED})
  set(shared $ENV{SYSTOLE_SHARED})
endif()
function(systole_add_example_on file example name expression)
  if(EXISTS ${shared}/data/${file})
    systole_add_example(${example} ${name} "${expression}" --data ${shared}/data/${file} ${ARGN})
  else()
    add_test(NAME examples.${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: no shared/data/${file}")
    set_tests_properties(examples.${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: no")
  endif()
endfunction()

systole_add_example_on(audio/free-spoken-digit-dataset.tar.xz audio_digits audio_digits_reaches_95_percent
  "2700 recordings to learn from, 300 .*test accuracy (0\\.9[5-9]|1\\.0)")
systole_add_example_on(tabular/uci_credit_default.csv credit_default credit_default_has_an_auc_of_76_percent
  "24000 to learn from.*22\\.1 % default.*test AUC 0\\.(7[6-9]|8)")
systole_add_example_on(tabular/breast_cancer.csv breast_cancer breast_cancer_reaches_96_percent
  "mean accuracy (0\\.9[6-9]|1\\.0)")
set_tests_properties(examples.audio_digits_reaches_95_percent examples.credit_default_has_an_auc_of_76_percent
  PROPERTIES LABELS slow)

systole_add_test(char_gpt_slow_test.cpp LABELS slow TIMEOUT 1200)
target_include_directories(char_gpt_slow_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(char_gpt_slow_test PRIVATE EXAMPLE_CHAR_GPT="$<TARGET_FILE:example_char_gpt>")
add_dependencies(char_gpt_slow_test example_char_gpt)
