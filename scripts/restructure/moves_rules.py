"""Where each file of the tree of before goes: the table of decisions, from which moves.tsv is made.

  python3 moves_rules.py TREE > moves.tsv      # TREE is a checkout in the layout of before

A file that no rule knows keeps its place; one in a folder that goes away (src/compile, src/train, src/profile, their
headers, tests/*_test.cpp) that no rule knows is guessed by `guess` and named on stderr: decide it.
"""
import re
import subprocess
import sys

# stems in src/compile that are passes (namespace systole::passes); all others are lower
PASSES = set('autocast cse dce flops fold inline_composites layout match pipeline simplify subgraphs verifying work'.split())
C_KERNELS = set('contraction_kernel few_rows_kernel map_kernel order_kernel rows_kernel special_kernel triangle_kernel '
                'window_kernel'.split())
RECORDING = set('any_size bad_op borrowed compiled control_body cut devices evaluate frame functions gradient_marks '
                'index_check index_plan intern mesh record step_graphs thread_state trace'.split())
KERNELS = {'device_array': 'device_array', 'host_array': 'host_array', 'kernel_op': 'kernel_op',
           'kernels': 'source_module', 'kernel_arguments': 'arguments'}
TRAIN = {  # stem: new place; the rest of src/train is training/
    'model_file': 'model/model_file', 'saved_model': 'model/saved_model', 'write_model': 'model/write_model',
    'generalize': 'model/generalize',
    'metric': 'metrics/metric', 'metrics': 'metrics/metrics', 'metrics_classes': 'metrics/classes',
    'metrics_numbers': 'metrics/numbers', 'metrics_ranking': 'metrics/ranking', 'samples': 'metrics/samples',
    'history': 'metrics/history',
    'axis': 'plot/axis', 'confusion_chart': 'plot/confusion_chart', 'drawing': 'plot/drawing', 'plot': 'plot/plot',
    'raster': 'plot/raster', 'stroke_font': 'plot/stroke_font', 'svg': 'plot/svg'}
BACKEND = {  # files that stand in src/backend itself
    'arguments': 'program/arguments', 'one_device': 'program/one_device', 'source_call': 'program/source_call',
    'step_text': 'program/step_text', 'tuning': 'program/tuning', 'walker': 'program/walker',
    'loaded': 'library/loaded', 'packages': 'library/packages',
    'tpu': 'tpu/tpu', 'tpu_work': 'tpu/work', 'splits': 'tpu/splits'}
PJRT = {'metadata': 'tpu/metadata', 'resolve': 'tpu/resolve', 'text': 'tpu/text'}  # namespace tpu; need no plugin
CPU = {'jit': 'jit/jit', 'jit_compilers': 'jit/compilers', 'clang_module': 'jit/clang_module', 'onednn': 'onednn/onednn'}
CUDA = {'buffer': 'driver/buffer', 'device': 'driver/device', 'driver': 'driver/driver', 'libraries': 'driver/libraries',
        'memory': 'driver/memory', 'pinned_ring': 'driver/pinned_ring', 'queues': 'driver/queues',
        'recorded_move': 'driver/recorded_move', 'by_threads': 'driver/by_threads',
        'blas': 'cublas/cublas', 'blas_api': 'cublas/api', 'dnn': 'cudnn/cudnn', 'cupti': 'cupti/cupti',
        'cupti_api': 'cupti/api', 'nvrtc': 'nvrtc/nvrtc', 'code': 'nvrtc/code', 'cubin': 'nvrtc/cubin'}
COMMANDS = set('bench cache compile data devices doctor evaluate export fmt new ops plot predict profile run summary tpu '
               'train'.split())

# tests/X (top level, without .cpp/.h/.py) → place below tests/
TESTS = {
    'base': 'budget_test crowd_test dtype_test env_test folder_lock_test log_test parallel_test printable_test '
            'processors_test reflect_test',
    'ir': 'infer_test text_test',
    'ops': 'ops_test composites_test',
    'eval': 'eval_test eval_graph_test eval_movement_test eval_plan_test eval_reduction_test',
    'autodiff': 'autodiff_test derivatives_test autodiff_check',
    'autodiff/batch': 'vmap_test',
    'passes': 'autocast_test layout_test passes_test simplify_test pass_check',
    'lower': 'program_test plan_memory_test strided_test wide_graphs_test huge_sizes_test judgement_test',
    'codegen': 'codegen_simt_test stablehlo_test empty_constants_test long_sums_test windows_test padding_test',
    'codegen/math': 'codegen_math_test codegen_math_integer_test codegen_math_slow_test codegen_math_check',
    'runtime': 'runtime_test disk_cache_test timeline_test streams_test',
    'runtime/source': 'kernel_sources_test',
    'backend/program': 'arguments_test',
    'backend/library': 'packages_test',
    'backend/patterns': 'look_alikes_test',
    'backend/reference': 'reference_test',
    'backend/opencl': 'opencl_test',
    'backend/tpu': 'tpu_work_test',
    'backend/cpu': 'cpu_allocations_test cpu_attention_test cpu_cost_test cpu_few_rows_test cpu_int8_layers_test '
                   'cpu_int8_test cpu_jit_test cpu_layers_test cpu_maps_test cpu_memory_test cpu_onednn_test '
                   'cpu_recurrence_test cpu_rows_test int8_check onednn_bounds onednn_bounds_slow_test onednn_bounds_test',
    'backend/cuda': 'cuda_blas_test cuda_convolution_test cuda_dnn_test cuda_layers_test cuda_lstm_test '
                    'cuda_pointwise_test cuda_schedule_test cuda_sums_test cuda_tuning_test',
    'tensor': 'tensor_test tensor_creation_test tensor_device_test tensor_linalg_test tensor_math_test '
              'tensor_shaping_test compiled_test transforms_test random_test distributions_test dlpack_test gradcheck_test '
              'neural_test index_check_test finite_check_test first_program_test static_objects_test host_memory_test '
              'mesh_devices_test ready_shapes_test tensor_check',
    'kernels': 'device_array_test kernels_test kernel_op_test kernel_call_test kernel_docs_test',
    'nn': 'nn_test layers_test layers_model_test losses_test zoo_test parity_test parity_digest',
    'optim': 'optim_test optim_parity_test loss_scale_test',
    'io': 'io_test safetensors_test tokenizer_test pretrained_test links_test',
    'model': 'saved_model_test saved_sizes_test saved_model_check',
    'metrics': 'metrics_test',
    'data': 'data_test data_pictures_test data_sets_test data_source_test data_transforms_test data_vocabulary_test '
            'digits_slow_test expansion_test local_server',
    'profiling': 'profile_test profile_programs_test profile_devices_test',
    'plot': 'plot_test',
    'training': 'trainer_test trainer_ahead_test trainer_corners_test trainer_devices_test trainer_messages_test '
                'checkpoint_test tensorboard_test non_finite_test nothing_trains_test',
    'cli': 'cli_test train_cli_test trust_cli_test profile_cli_test train_kill_slow_test export_test explain_test '
           'hostile_files_test older_run_test',
    'cli/bench': 'bench_test bench_cuda_test bench_deterministic_test bench_results_test bench_roofline_test '
                 'bench_slow_test bench_command bench_losses bench_results',
    'repository': 'layering_test docs_test faults_page_test'}
STRIPPED = ('cpu_', 'cuda_', 'data_', 'eval_', 'tensor_', 'codegen_', 'optim_', 'tpu_')  # what a folder already says
TEST_NAMES = {  # what else a folder already says
    'math_integer_test': 'integer_test', 'kernel_op_test': 'op_test', 'kernel_call_test': 'call_test',
    'kernel_docs_test': 'docs_test', 'kernel_sources_test': 'kernels_test', 'train_cli_test': 'train_test',
    'trust_cli_test': 'trust_test', 'profile_cli_test': 'profile_test'}
TEST_FOLDERS = [  # whole folders
    ('tests/cuda/', 'tests/backend/cuda/'), ('tests/pjrt/', 'tests/backend/pjrt/'),
    ('tests/onednn/', 'tests/backend/cpu/onednn/'), ('tests/nvrtc/', 'tests/backend/cuda/nvrtc/'),
    ('tests/nvtx/', 'tests/runtime/nvtx/'), ('tests/budget/', 'tests/tensor/budget/'),
    ('tests/docs/', 'tests/repository/docs/'), ('tests/scripts/', 'tests/repository/scripts/'),
    ('tests/install/', 'tests/repository/install/'), ('tests/minimal/', 'tests/repository/minimal/')]
TEST_KEPT = ('CMakeLists.txt', 'environment.cmake.in', 'leaks.supp', 'races.supp')


def test_place(name):
    """tests/NAME at the top level."""
    if name in TEST_KEPT:
        return 'tests/' + name
    stem, dot, ext = name.partition('.')
    for folder, stems in TESTS.items():
        if stem in stems.split():
            for prefix in STRIPPED:
                if stem.endswith('_test') and stem.startswith(prefix) and prefix[:-1] in folder.split('/') and stem != prefix + 'test':
                    stem = stem[len(prefix):]
            stem = TEST_NAMES.get(stem, stem)
            return f'tests/{folder}/{stem}{dot}{ext}'
    if ext == 'h':
        return 'tests/support/' + name
    return None


def source_place(path):
    """The new path below src/ or include/systole/; None: not known."""
    top, _, rest = path.partition('/')
    stem, dot, ext = rest.rpartition('.')
    if not rest:  # an umbrella
        return {'compile.h': 'passes.h', 'profile.h': 'profiling.h', 'train.h': 'training.h'}.get(path, path)
    if top == 'compile':
        return ('passes/' if stem.split('/')[0] in PASSES or stem == 'passes' else 'lower/') + rest
    if top == 'profile':
        return 'profiling/' + rest
    if top == 'train':
        return (TRAIN[stem] + '.' + ext) if stem in TRAIN else 'training/' + rest
    if top == 'codegen' and '/' not in rest:
        if stem in C_KERNELS:
            return 'codegen/c/' + rest
        if stem in ('simt', 'stablehlo'):
            return f'codegen/{stem}/{rest}'
        if stem == 'few_channels':
            return 'codegen/simt/' + rest
        m = re.fullmatch(r'(simt|stablehlo)_(.+)', stem)
        return f'codegen/{m[1]}/{m[2]}.{ext}' if m else path
    if top == 'runtime' and stem.startswith(('source_kernels', 'source_text', 'portable_language')):
        return 'runtime/source/' + re.sub('^source_', '', rest)
    if top == 'tensor':
        if stem in KERNELS:
            return f'kernels/{KERNELS[stem]}.{ext}'
        if rest == 'detail/kernel_values.h':
            return 'kernels/detail/kernel_values.h'
        return 'tensor/' + ('recording/' if stem in RECORDING else '') + rest
    if top == 'backend':
        if stem in BACKEND:
            return f'backend/{BACKEND[stem]}.{ext}'
        part, _, inner = stem.partition('/')
        if '/' in inner:
            return path
        if part == 'pjrt' and inner in PJRT:
            return f'backend/{PJRT[inner]}.{ext}'
        if part == 'cpu':
            if inner in CPU:
                return f'backend/cpu/{CPU[inner]}.{ext}'
            if inner.startswith('onednn_'):
                return f'backend/cpu/onednn/{inner[7:]}.{ext}'
        if part == 'cuda':
            if inner in CUDA:
                return f'backend/cuda/{CUDA[inner]}.{ext}'
            if inner.startswith('dnn_'):
                return f'backend/cuda/cudnn/{inner[4:]}.{ext}'
        return path
    if top == 'cli' and ext == 'cpp' and stem in COMMANDS:
        return 'cli/commands/' + rest
    return path


def place(path):
    if path.startswith('include/systole/'):
        inner = path[16:]
        if inner.startswith(('backend/', 'runtime/')):
            return path
        if inner.startswith('tensor/'):  # RECORDING is of src alone: what is public stays
            stem = inner[7:].rpartition('.')[0]
            return 'include/systole/' + source_place(inner) if stem in KERNELS or stem == 'detail/kernel_values' else path
        return 'include/systole/' + source_place(inner)
    if path.startswith('src/'):
        return 'src/' + source_place(path[4:])
    if path.startswith('tests/'):
        for old, new in TEST_FOLDERS:
            if path.startswith(old):
                name = path[len(old):]
                if old in ('tests/pjrt/', 'tests/onednn/') and name.endswith('_test.cpp'):
                    name = re.sub('^(pjrt|onednn)_', '', name)
                return new + name
        if path.count('/') == 1:
            return test_place(path[6:])
        return path
    return path


def test_target(path):
    """The CMake target of a test at this path, as tests/CMakeLists.txt makes it."""
    parts = re.sub(r'^tests/(backend/)?|\.cpp$', '', path).split('/')
    name = parts.pop()
    for part in reversed(parts):
        if not name.startswith(part + '_'):
            name = part + '_' + name
    return name


def targets(moved):
    """{old target: new target} of test programs whose names change."""
    out = {}
    for old, new in moved:
        own = ('tests/cuda/', 'tests/nvrtc/', 'tests/docs/')  # folders whose own lists make their targets
        if old.startswith('tests/') and old.endswith('_test.cpp') and not old.startswith(own):
            name = old.rpartition('/')[2][:-4]
            if test_target(new) != name:
                out[name] = test_target(new)
    out['char_gpt_slow_test'] = 'examples_char_gpt_slow_test'
    return out


def table(files):
    """[(old, new)] and the files that were guessed."""
    moved, unknown = [], []
    for old in files:
        new = place(old)
        if new is None:
            unknown.append(old)
            continue
        if new != old:
            moved.append((old, new))
    targets = [new for _, new in moved]
    assert len(set(targets)) == len(targets), [t for t in targets if targets.count(t) > 1]
    return moved, unknown


def main():
    files = subprocess.check_output(['git', '-C', sys.argv[1], 'ls-files', 'src', 'include', 'tests'], text=True).split('\n')
    moved, unknown = table([f for f in files if f])
    for old, new in moved:
        print(f'{old}\t{new}')
    for old in unknown:
        print(f'no place: {old}', file=sys.stderr)


if __name__ == '__main__':
    main()
