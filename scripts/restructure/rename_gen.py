"""python3 rename_gen.py TREE > rename.tsv: private names by HOUSE.md's glossary, counted in the moved TREE.

Columns: when (1 first, 2 then, 3 with stage 2, - not worth it), old, new, scope (paths of the new tree; all: src, tests, bench),
count by git grep -w in the scope, of them in literals, files, risk.
"""
import re
import subprocess
import sys

TREE = sys.argv[1]
ALL = 'src tests bench'
R = []


def r(when, old, new, scope, risk):
    R.append((when, old, new, scope, risk))


# --- 1: one meaning, one place, no literal near ---------------------------------------------------------------------
r(1, 'StandIn', 'Placeholder', 'src/tensor src/training src/model include/systole/tensor', 'low; `recording::Record` has a kind for it, its enum spelling is not printed')
r(1, 'stand_in', 'placeholder', 'src include/systole/tensor', 'low; 3 in public template code (recording::), no public name')
r(1, 'stand_ins', 'placeholders', 'src', 'low')
r(1, 'Specialization', 'Trace', 'src/tensor/recording/compiled.cpp', 'low: one .cpp; `Traced` becomes Trace too, so do that one first or name this CompiledTrace')
r(1, 'specializations', 'traces', 'src/tensor/recording/compiled.cpp', 'low')
r(1, 'Traced', 'Trace', 'src/tensor src/model src/training', 'medium: optim/schedule.cpp has another Traced (leave it: the scalar of a traced step)')
r(1, 'Walker', 'ProgramRunner', 'src/backend tests', 'low: class template in program/walker.h (file: runner.h), three users')
r(1, 'Machine', 'StepRunner', 'src/backend/program src/backend/cpu src/backend/opencl src/backend/cuda', 'medium: tpu/resolve.h has another Machine (a computer: leave), text "Machine" in docs/adding_a_backend.md; template parameter in walker.h')
r(1, 'Instance', 'SessionPool', 'src/runtime/compiled_graph.cpp', 'low; goes in stage 2 point 6 (one pool), so skip if 6 lands soon')
r(1, 'Rung', 'Compiler', 'src/backend/cpu/jit', 'medium: jit/compilers.h already has Compiler-like names; CompilerChoice else')
r(1, 'Ladder', 'CompilerChain', 'src/backend/cpu/jit', 'low')
r(1, 'vain_variables', 'unusable_variables', ALL, 'low')
r(1, 'vain', 'unusable', 'src/backend/cpu/jit', 'low')
r(1, 'Takeable', 'DonationMap', 'src/backend', 'low')
r(1, 'takeable_', 'donations_', 'src/backend', 'low')
r(1, 'is_takeable_', 'is_donated_', 'src/backend', 'low')
r(1, 'Lanes', 'StreamSet', 'src/backend/cuda', 'low in cuda; NOT in src/eval/reduction.cpp and include/systole/kernels/detail (SIMD lanes)')
r(1, 'Lanewalk', 'StreamWalk', 'src/backend/cuda tests/backend/cuda', 'low')
r(1, 'kMostLanes', 'kMostStreams', 'src/backend/cuda', 'low')
r(1, 'thrifty', 'rematerialized', 'src', 'low')
r(1, 'roams', 'follows_operands', 'src', 'low')
r(1, 'kDear', 'kExpensive', 'src', 'low')
r(1, 'Occasion', 'RandomContext', 'src/data', 'low')
r(1, 'occasion', 'context', 'src/data', 'low')
r(1, 'Chance', 'RandomStream', 'src/data', 'low; file data/chance.h -> data/random_stream.h; not `random` (namespace systole::random is public)')
r(1, 'chance', 'random', 'src/data', 'medium: `random` hides the namespace systole::random where both are used (transforms_device.cpp): `stream` there')
r(1, 'chances', 'streams', 'src/data', 'low')
r(1, 'chance_of', 'stream_of', 'src/data', 'low')
r(1, 'judge', 'predicate', 'src/lower src/codegen src/backend src/tensor', 'medium: kernel sources: generated variable names may hold it; compare the cache keys')
r(1, 'judge_', 'predicate_', 'src', 'low')
r(1, 'judges', 'has_predicate', 'src/lower src/codegen src/backend', 'medium: member of a struct printed by Program text? check `--explain` goldens')
r(1, 'judged', 'predicated', 'src/lower src/codegen src/backend', 'medium')
r(1, 'judgement', 'predicate', 'src', 'low')
r(1, 'judgements', 'predicates', 'src', 'low')
r(1, 'judgement_of_product', 'predicate_of_product', 'src docs', 'low; docs/performance.md names it')
r(1, 'presume', 'assume', 'src', 'low')
r(1, 'in_words', 'text', 'src tests', 'low; kind_in_words, argument_in_words alike')
r(1, 'kernels_in_words', 'kernels_text', 'src tests', 'low')
r(1, 'kind_in_words', 'kind_text', 'src', 'low')
r(1, 'argument_in_words', 'argument_text', 'src', 'low')
r(1, 'Pieces', 'SubAxes', 'src/backend/patterns src/backend/cpu src/lower src/codegen', 'low; NOT in src/cli/commands/profile.cpp, whose Pieces are parts of a run')
r(1, 'Meeting', 'MergeCandidate', 'src/lower/fuse.cpp', 'low; not a rendezvous: two groups that meet')
r(1, 'meeting', 'rendezvous', 'src/backend/reference', 'low')
r(1, 'restated', 'decomposed', 'src', 'low in code; 2 literals stay unless they are prose')
r(1, 'adapted', 'legalized', 'src', 'low in code; 2 literals')
# --- 2: many files ----------------------------------------------------------------------------------------------------
r(2, 'dnnl', 'onednn', 'src/backend/cpu tests/backend/cpu', 'HIGH: namespace cpu::dnnl; macros make vendor symbols ("dnnl_" #name), libdnnl.so.3, dnnl.h: rename the namespace only, by clang tooling, never by sed')
r(2, 'dnn', 'cudnn', 'src/backend/cuda tests/backend/cuda', 'HIGH: namespace cuda::dnn and SYSTOLE_DNN_FIND makes "cudnn" #name; tuning questions ("dnn…") and disk-cache prefixes are literals and stay')
r(2, 'DnnConvolution', 'CudnnConvolution', ALL, 'low')
r(2, 'DnnLayer', 'CudnnLayer', ALL, 'low')
r(2, 'DnnWishes', 'CudnnPreferences', ALL, 'low')
r(2, 'DnnNorm', 'CudnnNorm', ALL, 'low')
r(2, 'DnnPooling', 'CudnnPooling', ALL, 'low')
r(2, 'DnnRnn', 'CudnnRnn', ALL, 'low')
for name in ('dnn_absence dnn_attention_call dnn_attention_offer dnn_attention_refusal dnn_call dnn_channels dnn_layer_call '
             'dnn_layer_offer dnn_offer dnn_prepare is_dnn_layer make_dnn_norm make_dnn_pooling make_dnn_rnn '
             'read_dnn_convolution').split():
    r(2, name, name.replace('dnn_', 'cudnn_'), ALL, 'low; doctor.cpp uses dnn_absence')
r(2, 'lt', 'cublaslt', 'src/backend/cuda/cublas tests/backend/cuda', 'medium: namespace cuda::lt; a word so short only by clang tooling')
r(2, 'hlo', 'stablehlo', 'src/codegen/stablehlo', 'low: namespace codegen::hlo')
r(2, 'steps_per_call', 'steps_per_launch', 'src tests', 'HIGH: TOML key by KEY (train.steps_per_call stays), public FitOptions::steps_per_call (include/systole/training/trainer.h): after KEY takes text; the message in feed.cpp names it')
r(2, 'Picture', 'Image', 'src', 'medium: io::Picture* public below')
r(2, 'Pictures', 'Images', 'src', 'medium')
r(2, 'picture', 'image', 'src tests', 'HIGH by hand: 23 literals (messages, part names by reflect, kinds of data); locals and parameters only')
r(2, 'pictures', 'images', 'src tests', 'HIGH: 30 literals; `Settings` members that KEY stringises')
r(2, 'colour', 'color', 'src tests', 'medium: 4 literals; members of structs that `reflect` names (data transforms, state text) must stay')
r(2, 'colours', 'colors', 'src tests', 'medium: same')
r(2, 'coloured', 'colored', 'src tests', 'low')
r(2, 'Colour', 'Color', 'src', 'low: plot/drawing.h, cli/terminal.h')
r(2, 'kColours', 'kColors', 'src', 'low')
r(2, 'normalise', 'normalize', 'src', 'medium: 4 literals (transform names in files?)')
r(2, 'normalised', 'normalized', 'src', 'medium: 2 literals')
r(2, 'normalise_into', 'normalize_into', 'src', 'low')
r(2, 'normalised_axes', 'normalized_axes', 'src', 'low')
r(2, 'told', 'reported', 'src', 'by hand: 68 uses of five meanings')
r(2, 'told_', 'reported_', 'src', 'by hand')
r(2, 'is_told', 'is_reported', 'src', 'low')
r(2, 'beside', 'next_to', 'src', 'by hand; "beside." is the name of a state in checkpoints: a literal, stays')
r(2, 'bad_numbers', 'non_finite', 'src', 'HIGH: TOML key train.bad_numbers stays; FitOptions member is public: alias; KEY stringises until it takes text')
r(2, 'BadNumbers', 'NonFinite', 'src include tests', 'HIGH: public enum: alias')
r(2, 'device_bytes', 'resident_bytes', 'src include', 'HIGH: public member (LoaderOptions/FeedOptions): alias impossible for members without a union; do in stage 2 point 7')
r(2, 'device_gigabytes', 'resident_gigabytes', 'src', 'HIGH: TOML key by KEY: first KEY takes text')
r(2, 'processors', 'cpus', 'src/base', 'low; 4 literals (paths below /sys): never those')
r(2, 'available_processors', 'available_cpus', 'src', 'low')
r(2, 'processor_quota', 'cpu_quota', 'src', 'low')
# --- 3: what stage 2 removes or reshapes ------------------------------------------------------------------------------
r(3, 'Program', '(goes)', 'src/tensor/recording', 'recording::Program is removed by point 6 (one session pool); do not rename')
r(3, 'Idle', '(goes)', 'src/tensor/recording', 'with recording::Program')
r(3, 'Settings', 'Config', 'src/cli', 'point 7: cli::Settings becomes experiment::Config; nn/losses.h has a public Settings')
r(3, 'Value', 'TomlValue', 'src/cli', 'point 7; by clang tooling: ir::Value is everywhere')
r(3, 'Source', 'Dataset', 'src/data include/systole/data', 'public data::Source: strong reason (source = kernel text), alias; the last of all, alone')
r(3, 'Module', 'LoadedProgram', 'src/backend', 'cpu, opencl, cuda executor.h/module.h: with point 6 (one shape of backends)')
r(3, 'Compiled', 'LoadedProgram', 'src/backend', 'same; tensor/compiled.h has the public Compiled: never global')
r(3, 'Call', 'ProgramStep', 'src/backend', 'same; four other Call (infer.h, forward.cpp, compiled.h, source_module.h) stay')
r(3, 'Executor', 'ProgramRunner', 'src/backend', 'same')
# --- not worth it ------------------------------------------------------------------------------------------------------
r('-', 'words', 'text', ALL, 'most are words of a text or of a wire: right as they are; only messages change, with stage 3')
r('-', 'turn', 'iteration', 'src', 'by eye: half are rotations of images')
r('-', 'turn_', 'iteration_', 'src', 'schedules and order locks: `turn` is the field\'s word for the latter')
r('-', 'Plan', 'EpochOrder/ExecutionPlan/EvalSchedule', 'src', 'five classes in five namespaces, none visible outside its folder but eval::Plan; only `data::Plan` -> EpochOrder pays')
r('-', 'kLanes', '', 'src', 'SIMD and vector widths everywhere: right by the glossary ("lane" is SIMD only)')
r('-', 'multiprocessors', '', 'src', "NVIDIA's term")
r('-', 'onednn_absence', '', 'src', 'right already')
r('-', 'kWords', '', 'src', 'words of random bits: right')


def grep(pattern, scope):
    out = subprocess.run(['git', '-C', TREE, 'grep', '-hwoE', pattern, '--'] + scope.split(), capture_output=True, text=True).stdout
    return len(out.splitlines())


def files(pattern, scope):
    out = subprocess.run(['git', '-C', TREE, 'grep', '-lwE', pattern, '--'] + scope.split(), capture_output=True, text=True).stdout
    return len(out.splitlines())


def literal(pattern, scope):
    out = subprocess.run(['git', '-C', TREE, 'grep', '-hwE', pattern, '--'] + scope.split(), capture_output=True, text=True).stdout
    return sum(bool(re.search(r'\b' + pattern + r'\b', ' '.join(re.findall(r'"(?:\\.|[^"\\])*"', line)))) for line in out.splitlines()
               if not line.startswith('#include'))


print('when\told\tnew\tscope\tcount\tin literals\tfiles\trisk')
for when, old, new, scope, risk in R:
    print(when, old, new, scope, grep(old, scope), literal(old, scope), files(old, scope), risk, sep='\t')
