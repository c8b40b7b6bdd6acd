#!/usr/bin/env python3
"""Performs the moves of stage 1 on a checkout: `python3 apply_moves.py TREE [--no-forwards]`.

moves.tsv beside this file says which file goes where; moves_rules.py made it and is asked for files that are newer. Every
step looks at what stands in the tree, so a second run changes nothing. What a step expected and did not find is printed as
`by hand:`. Nothing is committed. --no-forwards leaves the forwarding headers to a second commit, so that git follows the
public headers to their new places (a path that stays is a change for git, not a move).
"""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import moves_rules  # noqa: E402

TREE = os.path.abspath(sys.argv[1])
FORWARDS = '--no-forwards' not in sys.argv
os.chdir(TREE)
by_hand = []


def git(*args):
    return subprocess.run(['git', *args], check=True, capture_output=True, text=True).stdout


def tracked():
    return [f for f in git('ls-files', '-co', '--exclude-standard').split('\n') if f and os.path.exists(f)]


def read(path):
    with open(path, encoding='utf-8', newline='') as f:
        return f.read()


changed = set()


def write(path, text):
    if os.path.exists(path) and read(path) == text:
        return
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    with open(path, 'w', encoding='utf-8', newline='') as f:
        f.write(text)
    changed.add(path)


# ---- what moves ----------------------------------------------------------------------------------------------------
FORWARD = '// Moved to '  # the first words of a forwarding header's comment


def is_forward(path):
    return path.startswith('include/') and path.endswith('.h') and FORWARD in read(path)[:200]


moves = dict(line.split('\t') for line in read(os.path.join(HERE, 'moves.tsv')).splitlines() if line)
new_places = set(moves.values())
newer, unknown = moves_rules.table([f for f in tracked() if f not in moves and f not in new_places])
for old, new in newer:
    # a path that only the moved tree has, as src/codegen/simt/simt.cpp, has no further to go
    if old not in new_places and not is_forward(old) and not old.startswith('include/systole/kernels'):
        if new.startswith('src/lower/') and 'namespace systole::passes' in read(old):
            new = 'src/passes/' + new[10:]
        moves[old] = new
        print(f'newer than moves.tsv: {old} -> {new}')
for old in unknown:
    by_hand.append(f'{old}: a new file, for which moves_rules.py has no place')
back = {new: old for old, new in moves.items()}
assert len(back) == len(moves) and not set(moves) & set(back)

# ---- 1. git mv -----------------------------------------------------------------------------------------------------
moved_now = 0
for old, new in moves.items():
    if not os.path.exists(old) or is_forward(old):
        continue
    if os.path.exists(new):
        by_hand.append(f'{old} and {new} are both there')
        continue
    os.makedirs(os.path.dirname(new), exist_ok=True)
    git('mv', old, new)
    moved_now += 1
for folder, folders, files in os.walk('.', topdown=False):
    if '.git' not in folder.split(os.sep) and folder.startswith(('./src', './include', './tests')):
        if not os.listdir(folder):
            os.rmdir(folder)

# ---- 2. #include lines ---------------------------------------------------------------------------------------------
BINARY = ('.npz', '.npy', '.png', '.jpg', '.safetensors', '.pt', '.fixture', '.wav')
UNTOUCHED = ('tests/data/', 'tests/conformance/fixtures/', 'tests/fuzz/corpus/', 'docs/gpu-check.md', 'CHANGELOG.md',
             'tests/golden/', 'tests/parity/', 'tests/scripts/identifiers.txt', 'tests/repository/scripts/identifiers.txt')
files = tracked()
have = set(files)
texts = [f for f in files if not f.endswith(BINARY) and (not f.startswith(UNTOUCHED) or f.endswith('.py'))]
INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(["<])([^">\n]+)([">])', re.M)
# folders of tests/ that targets have in their include path, before and after
OLD_ROOTS = ('tests/', 'tests/conformance/', 'tests/cuda/emulated/', 'tests/docs/')


def included(path, quote, name):
    """The line's new name."""
    here, old_here = os.path.dirname(path), os.path.dirname(back.get(path, path))
    if quote == '"' and os.path.exists(os.path.join(here, name)):
        return name
    if ('src/' + name in have and 'src/' + name not in moves) or (
            'include/' + name in have and 'include/' + name not in moves):
        return name
    if 'src/' + name in moves:
        return moves['src/' + name][4:]
    if 'include/' + name in moves:
        return moves['include/' + name][8:]
    if quote == '<' or not path.startswith(('tests/', 'bench/')):
        return name
    places = [os.path.normpath(os.path.join(old_here, name))] + [root + name for root in OLD_ROOTS]
    for old in places:
        new = moves.get(old, old)
        if new not in have:
            continue
        if new.startswith('tests/support/'):  # in the include path of all tests
            return new[14:]
        if os.path.dirname(new) == here:
            return os.path.basename(new)
        if old == places[0] or old not in [root + name for root in OLD_ROOTS[1:]]:
            return os.path.relpath(new, here)
        return name  # by the include path of its target
    return name


for path in texts:
    if not path.endswith(('.h', '.cpp', '.def', '.inc', '.md', '.in', '.cmake', '.txt')) or is_forward(path):
        continue
    text = read(path)
    new = INCLUDE.sub(lambda m: m[1] + m[2] + included(path, m[2], m[3]) + m[4], text)
    # in a row of precompiled headers, an embedded text's header, and pages' prose: <systole/train/plot.h>
    new = re.sub(r'(?<=<)systole/[\w/]+\.h(?=>)', lambda m: moves.get('include/' + m[0], 'include/' + m[0])[8:], new)
    write(path, new)

# ---- 3. paths in texts ---------------------------------------------------------------------------------------------
FOLDERS = dict([(old.rstrip('/'), new.rstrip('/')) for old, new in moves_rules.TEST_FOLDERS] + [
    ('src/profile', 'src/profiling'), ('src/train', 'src/training'), ('include/systole/train', 'include/systole/training')])
TOKEN = re.compile(r'(?<![\w./-])(/?)((?:src|tests|include/systole)/[\w./-]*\w)')


def path_of(token):
    if token in moves:
        return moves[token]
    for old, new in FOLDERS.items():
        if token == old or token.startswith(old + '/'):
            return new + token[len(old):]
    return token


# "backend/tuning.h", as comments and CMake lists name files: below src/ or include/
below = {}
for old, new in moves.items():
    for root in ('src/', 'include/systole/', 'include/', 'tests/'):
        if old.startswith(root) and '/' in old[len(root):]:
            below.setdefault(old[len(root):], new[len(root):])
BELOW = re.compile(r'(?<![\w./<-])((?:[a-z_]+/)+[a-z0-9_]+\.(?:h|cpp|def|html|py)\b)')
# "dnn_api.h", in comments and pages: names that changed and that nothing else has
names, seen = {}, {}
for path in set(files) | set(moves):
    seen.setdefault(os.path.basename(path), set()).add(back.get(path, path))
for old, new in moves.items():
    name, now = os.path.basename(old), os.path.basename(new)
    if name != now and old.startswith('src/') and len(seen[name]) == 1:
        names[name] = os.path.basename(os.path.dirname(new)) + '/' + now
NAME = re.compile(r'(?<![\w./<-])(' + '|'.join(sorted(map(re.escape, names), key=len, reverse=True)) + r')\b')

for path in texts:
    if is_forward(path):
        continue
    lines = read(path).split('\n')
    for i, line in enumerate(lines):
        new = TOKEN.sub(lambda m: m[1] + path_of(m[2]), line)
        if not INCLUDE.match(line):
            new = BELOW.sub(lambda m: below.get(m[1], m[1]) if 'src/' + m[1] not in have else m[1], new)
            new = NAME.sub(lambda m: names[m[1]], new)
        lines[i] = new
    write(path, '\n'.join(lines))

# ---- 4. names of test programs -------------------------------------------------------------------------------------
targets = moves_rules.targets(list(moves.items()))
assert not set(targets) & set(targets.values())
TARGET = re.compile(r'(?<![\w-])(' + '|'.join(map(re.escape, targets)) + r')\b(?!\.)')
for path in texts:
    if not (path.startswith('scripts/') or path == 'Makefile' or
            path.startswith('tests/') and path.endswith(('CMakeLists.txt', '.cmake', '.sh'))):
        continue
    text = read(path)

    def listed(m):  # foreach(program a b) … ${program}_test
        programs = [targets.get(p + '_test', p + '_test')[:-5] for p in m[1].split()]
        lines, line = [], 'foreach(program'
        for p in programs:
            if len(line) + len(p) > 118:
                lines.append(line)
                line = '   '
            line += ' ' + p
        return '\n'.join(lines + [line]) + ')' + m[2]
    new = re.sub(r'foreach\(program ([^)]*)\)(\s+systole_add_emulated_test\(\$\{program\}_test)', listed, text)
    if 'target_of()' not in new:  # where programs stand by their paths
        new = TARGET.sub(lambda m: targets[m[1]], new)
    write(path, new)


# ---- 5. what is written by hand --------------------------------------------------------------------------------------
def edit(path, old, new, regex=False, sign=None):
    """`old` becomes `new` once; nothing where `new` (or what it is known by) stands."""
    if not os.path.exists(path):
        by_hand.append(f'{path} is not there')
        return
    text = read(path)
    if (sign or new) in text and (new or old not in text):
        return
    result = re.sub(old, lambda m: m.expand(new) if regex else new, text, count=1, flags=re.M | re.S) if regex else (
        text.replace(old, new, 1))
    if result == text:
        by_hand.append(f'{path}: {old.splitlines()[0][:90]!r} is not there')
    write(path, result)


ORDER = ('base ir ops eval autodiff passes lower codegen runtime backend tensor kernels nn optim io model metrics data '
         'profiling plot training')
edit('CMakeLists.txt', 'set(SYSTOLE_FOLDERS base ir ops eval autodiff compile codegen runtime backend tensor nn optim io data '
     'profile train)', 'set(SYSTOLE_FOLDERS base ir ops eval autodiff passes lower codegen runtime backend tensor kernels nn '
     'optim io\n  model metrics data profiling plot training)')
edit('CMakeLists.txt', '"/backend/cpu/clang_module.cpp$"', '"/backend/cpu/jit/clang_module.cpp$"')
edit('CMakeLists.txt', 'list(APPEND sources src/backend/pjrt/discovery.cpp src/backend/tpu/metadata.cpp '
     'src/backend/tpu/resolve.cpp)', 'list(APPEND sources src/backend/pjrt/discovery.cpp)')
edit('CMakeLists.txt', 'if(folder STREQUAL profile)', 'if(folder STREQUAL profiling)')
edit('cmake/Speed.cmake', 'set(SYSTOLE_O2 ir runtime tensor io data)', 'set(SYSTOLE_O2 ir runtime tensor kernels io data)')
edit('cmake/Speed.cmake', '/backend/(arguments|source_call)', '/backend/program/(arguments|source_call)')
edit('cmake/Speed.cmake', 'set(SYSTOLE_TENSOR_FOLDERS tensor nn optim data profile train cli tests)',
     'set(SYSTOLE_TENSOR_FOLDERS tensor kernels nn optim model metrics data profiling plot training cli tests)')
edit('cmake/Embed.cmake', 'target_sources(systole_profile PRIVATE', 'target_sources(systole_profiling PRIVATE')
edit('src/cli/CMakeLists.txt', 'file(GLOB sources CONFIGURE_DEPENDS *.cpp)\nadd_executable',
     'file(GLOB sources CONFIGURE_DEPENDS *.cpp commands/*.cpp)\nadd_executable')
edit('tests/fuzz/CMakeLists.txt',
     'data/set_files train/model_file train/fit_state train/state_text train/history cli/terminal',
     'data/set_files model/model_file training/fit_state training/state_text metrics/history cli/terminal')

# what the companions of `systole train` share; systole_training is the folder's now
for path in ('src/cli/CMakeLists.txt', 'tests/CMakeLists.txt'):
    write(path, re.sub(r'\bsystole_training\b', 'systole_cli_training', read(path)))

# tests
edit('tests/CMakeLists.txt', r'# Every tests/\*_test\.cpp is a program.*?by having one\.\n',
     '# Tests mirror src/: every tests/FOLDER/*_test.cpp is a program of its own, so that a change relinks one small file, and '
     'is\n# named by its path; ctest knows each test in it by name. A folder with a CMakeLists.txt of its own has its own '
     'list.\n# Headers that tests of several folders share are in support/, which is in the include path of all.\n\n'
     'include_directories(support)\n', regex=True)
edit('tests/CMakeLists.txt', '# systole_add_test(source [PROPERTIES…])', '''\
# systole_test_name(source result): the path from here without backend/, and without a word twice:
# backend/cpu/jit_test.cpp is cpu_jit_test, kernels/kernels_test.cpp is kernels_test.
function(systole_test_name source result)
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests OUTPUT_VARIABLE path)
  string(REGEX REPLACE "\\\\.cpp$" "" path ${path})
  string(REGEX REPLACE "^backend/" "" path ${path})
  string(REPLACE "/" ";" parts ${path})
  list(POP_BACK parts name)
  list(REVERSE parts)
  foreach(part IN LISTS parts)
    if(NOT name MATCHES "^${part}_")
      string(PREPEND name ${part}_)
    endif()
  endforeach()
  set(${result} ${name} PARENT_SCOPE)
endfunction()

# systole_add_test(source [PROPERTIES…])''')
edit('tests/CMakeLists.txt', '  get_filename_component(name ${source} NAME_WE)\n  add_executable(${name} ${source})',
     '  systole_test_name(${source} name)\n  add_executable(${name} ${source})')
edit('tests/CMakeLists.txt', 'if(name MATCHES "^hostile_")', 'if(name MATCHES "^cli_hostile_")')
edit('tests/CMakeLists.txt', 'if(name MATCHES "^(bench|explain)_")', 'if(name MATCHES "^cli_(bench|explain)_")')
edit('tests/CMakeLists.txt', 'file(GLOB sources CONFIGURE_DEPENDS *_test.cpp)\n', '''\
file(GLOB_RECURSE sources CONFIGURE_DEPENDS *_test.cpp)
  foreach(folder IN LISTS folders)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
''')
edit('tests/CMakeLists.txt', 'set_source_files_properties(packages_test.cpp PROPERTIES',
     'set_source_files_properties(backend/library/packages_test.cpp PROPERTIES')
edit('tests/CMakeLists.txt', r'\nfile\(GLOB folders CONFIGURE_DEPENDS \*/CMakeLists\.txt\)\n.*\Z', '''
foreach(folder IN LISTS folders)
  add_subdirectory(${folder})
endforeach()
''', regex=True)
edit('tests/CMakeLists.txt', 'set(seconds 300)  # of a test', '''\
# Those with lists of their own; conformance stands first, since others add rows to it.
set(folders conformance backend/cpu/onednn backend/cuda backend/pjrt runtime/nvtx tensor/budget examples fuzz
  repository/docs repository/install repository/minimal repository/scripts)

set(seconds 300)  # of a test''')
edit('tests/backend/cuda/CMakeLists.txt', '# In the place of the machine\'s cuDNN, by its name.', '''\
foreach(name blas convolution dnn layers lstm pointwise schedule sums tuning)  # without the fake driver
  systole_add_test(${name}_test.cpp)
endforeach()

# In the place of the machine's cuDNN, by its name.''')
edit('tests/backend/cuda/CMakeLists.txt', 'add_subdirectory(emulated)', 'add_subdirectory(emulated)\nadd_subdirectory(nvrtc)')
edit('tests/backend/cuda/nvrtc/CMakeLists.txt', 'nvrtc.cpp ../conformance/fixture.cpp ../conformance/compare.cpp)',
     'nvrtc.cpp\n  ${PROJECT_SOURCE_DIR}/tests/conformance/fixture.cpp ${PROJECT_SOURCE_DIR}/tests/conformance/compare.cpp)')
edit('tests/backend/cuda/nvrtc/CMakeLists.txt', 'PUBLIC ../conformance)', 'PUBLIC ${PROJECT_SOURCE_DIR}/tests/conformance)')
edit('tests/backend/pjrt/CMakeLists.txt', '  get_filename_component(name ${source} NAME_WE)\n',
     '  systole_test_name(${source} name)\n')
edit('tests/backend/pjrt/CMakeLists.txt', '  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)\n', '')
edit('tests/examples/tasks.cmake',
     'target_include_directories(examples_char_gpt_slow_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)\n', '')
if os.path.exists('tests/backend/cpu/onednn/CMakeLists.txt'):
    edit('tests/backend/cpu/onednn/CMakeLists.txt', 'systole_add_test(onednn_version_test.cpp)',
         'systole_add_test(version_test.cpp)')

# the order of folders, in the test that holds it
LAYERING = 'tests/repository/layering_test.cpp'
edit(LAYERING, r'constexpr std::string_view kFolders\[\] = \{.*?\};', '''constexpr std::string_view kFolders[] = {
    "base",   "ir",   "ops",   "eval",  "autodiff", "passes", "lower", "codegen",   "runtime", "backend",  "tensor",
    "kernels", "nn",   "optim", "io",    "model",    "metrics", "data",  "profiling", "plot",    "training", "cli"};
// Of backend; its own files, which list the backends, stand after these.
constexpr std::string_view kBackend[] = {"program", "library", "patterns", "reference", "cpu",
                                         "opencl",  "cuda",    "pjrt",     "tpu"};''', regex=True, sign='kBackend[]')
edit(LAYERING, r'// "ir/graph\.h" and "ir\.h" give "ir"\.\n', '''\
// The position of "backend/cuda/cuda.h" in kBackend, behind all of them for "backend/backends.cpp".
int position_in_backend(std::string_view path) {
  path.remove_prefix(std::min(path.find('/') + 1, path.size()));
  const auto* found = std::find(std::begin(kBackend), std::end(kBackend), path.substr(0, path.find_first_of("/.")));
  return static_cast<int>(found - std::begin(kBackend));
}

// "ir/graph.h" and "ir.h" give "ir".
''', regex=True, sign='position_in_backend(')
edit(LAYERING, 'if (is_public && folder == "systole") return {};  // the umbrella', '''\
if (is_public && folder == "systole") return {};  // the umbrella
  if (is_public && file.text.find("// Moved to ") != std::string::npos) return {};  // for one release''', sign='// Moved to ')
edit(LAYERING, '''      report("which stands below " + folder);
''', '''      report("which stands below " + folder);
    } else if (folder == "backend" && target == folder &&
               position_in_backend(ours ? std::string_view(name).substr(8) : std::string_view(name)) >
                   position_in_backend(std::string_view(file.path).substr((is_public ? kPublic : kPrivate).size()))) {
      report("which stands below it in backend");
''', sign='below it in backend')
edit(LAYERING, '"src/compile/pipeline.cpp"', '"src/passes/pipeline.cpp"')
edit(LAYERING, '      {"src/misc/helper.cpp", ""},\n', '''\
      {"src/misc/helper.cpp", ""},
      {"src/backend/cpu/cpu.cpp", "#include \\"backend/cuda/cuda.h\\"\\n"},
      {"src/backend/patterns/layers.cpp", "#include \\"backend/backends.h\\"\\n"},
''', sign='"src/backend/patterns/layers.cpp"')

# gpu-check: programs by the paths of their sources, from which their names follow
GPU = 'scripts/gpu-check'
if os.path.exists(GPU) and 'target_of()' not in read(GPU):
    text = read(GPU)
    source_of = {v: k for k, v in targets.items()}
    where = {moves_rules.test_target(new): new[6:-4] for old, new in moves.items() if new.endswith('_test.cpp')}

    def paths(m):
        programs, lines, line = [where.get(p, p) for p in m[2].split()], [], f'{m[1]}=('
        for p in programs:
            if len(line) + len(p) > 116:
                lines.append(line.rstrip())
                line = '  '
            line += p + ' '
        return '\n'.join(lines + [line.rstrip()]) + ')'
    text = re.sub(r'^(programs_of_\w+)=\(([^)]*)\)', paths, text, flags=re.M)
    text = text.replace('''# The programs of tests of each part; those whose names say cuda are found by their names. With them go the folders that
# a card runs:''', '''# The programs of tests of each part, by their paths in tests/; those whose names say cuda are found by their names. With
# them go the folders that a card runs:''', 1)
    named = r'''# As tests/CMakeLists.txt names them: the path without backend/, and without a word twice.
target_of() { printf '%s\n' "$@" | sed -E 's#^backend/##; s#(^|/)([a-z0-9]+)/\2_#\1\2_#; s#/#_#g'; }
programs_in() { target_of "$@" | sed "s#^#$build/tests/#"; }
'''
    text = re.sub(r'^programs_run=.*\n', lambda m: m[0] + named, text, count=1, flags=re.M)
    text = re.sub(r'^folders_run=.*$', 'folders_run=(base ir ops eval autodiff passes lower codegen runtime backend tensor kernels '
                  'nn optim)', text, flags=re.M)
    text = text.replace('tests/conformance tests/backend/cuda tests/backend/cuda/nvrtc)', 'tests/conformance tests/backend/cuda tests/support)')
    text = text.replace("""':(glob)tests/*.h' ':(glob)tests/*cuda_*test.cpp' \\""", """':(glob)tests/**/*.h' \\""")
    text = text.replace("""find tests -maxdepth 1 \\( -name '*.h' -o -name '*cuda_*test.cpp' \\)""", """find tests -name '*.h'""")
    text = text.replace("'^(src/backend|tests)/(cpu|opencl|pjrt)|[.](pyc|md)$'",
                        "'^(src|tests)/backend/(cpu|opencl|pjrt)/|^tests/(fuzz|repository)/|[.](pyc|md)$'")
    text = re.sub(r'grep -oE .\\b\(bench_\)\?cuda_', lambda m: m[0].replace('(bench_)', '(cli_bench_)'), text)
    text = text.replace('    "${programs_run[@]}" $names', '    $(target_of "${programs_run[@]}") $names')
    for part in ('losses', 'parity', 'training'):
        text = text.replace(f'programs {part} "${{programs_of_{part}[@]/#/$build/tests/}}"',
                            f'programs {part} $(programs_in "${{programs_of_{part}[@]}}")')
    text = re.sub(r'"\$build"/tests/cuda_\*_test "\$build"/tests/[\w/]*cuda/cuda_\*_test \\\n\s+"\$\{programs_of_tests\[@\]/#/\$build/tests/\}"',
                  '"$build"/tests/backend/cuda/cuda_*_test $(programs_in "${programs_of_tests[@]}")', text)
    text = re.sub(r'^(  GTEST_FILTER=\S+ programs (losses|parity|training) \$\()', r'  # shellcheck disable=SC2046  # names without spaces\n\1', text, flags=re.M)
    text = re.sub(r"^(  GTEST_FILTER='\*' programs tests )", r'  # shellcheck disable=SC2046\n\1', text, flags=re.M)
    text = text.replace('  # shellcheck disable=SC2086\n  cmake --build', '  # shellcheck disable=SC2046,SC2086\n  cmake --build')
    write(GPU, text)
    for left in ('maxdepth 1 \\( -name', '/#/$build/tests/', 'src/compile', ' compile codegen '):
        if left in text:
            by_hand.append(f'{GPU}: {left} still stands there')
CHECK = 'tests/repository/scripts/gpu_check_check.sh'
if os.path.exists(CHECK):
    text = read(CHECK)
    for old, new in (
            ('"$tree"/tests/{cuda,parity}', '"$tree"/tests/{backend/{cpu,cuda},kernels,support,cli,parity}'),
            ('build-gpu/tests/conformance build-gpu/tests/cuda\n', 'build-gpu/tests/conformance build-gpu/tests/backend/cuda\n'),
            ('  cuda/cuda_session_test; do', '  backend/cuda/cuda_session_test; do'),
            ('$tree/tests/kernels_test.cpp"', '$tree/tests/kernels/kernels_test.cpp"'),
            ('src/{cli/b,train/fit,', 'src/{cli/b,training/fit,'), ('src/{ir,cli,train,data}', 'src/{ir,cli,training,data}'),
            ('docs/cuda.md tests/{cli,cpu_jit}_test.cpp', 'docs/cuda.md tests/{cli/cli,backend/cpu/jit}_test.cpp'),
            ('tests/cuda/session_test.cpp', 'tests/backend/cuda/session_test.cpp'),
            ('tests/cuda_blas_test.cpp', 'tests/backend/cuda/blas_test.cpp'),
            ('tests/model_devices.h', 'tests/support/model_devices.h'),
            (' tests/kernels_test.cpp', ' tests/kernels/kernels_test.cpp'),
            ('    tests/kernels_test.cpp"', '    tests/kernels/kernels_test.cpp"')):
        text = text.replace(old, new)
    write(CHECK, text)
# pages and tests that name folders
for path, old, new in (
        ('tests/cli/cli_test.cpp', 'parent_path() / "tests/pjrt"', 'parent_path() / "tests/backend/pjrt"'),
        ('CONTRIBUTING.md', '`tests/NAME_test.cpp` is picked up', '`tests/FOLDER/NAME_test.cpp` is picked up'),
        ('bench/kernels/README.md', '`tests/cpu_NAME_test.cpp`', '`tests/backend/cpu/NAME_test.cpp`'),
        ('docs/compiler.md', '`tests/codegen_math_*`', '`tests/codegen/math`'),
        ('docs/compiler.md',
         'src/tensor     src/compile    fuse.cpp     lower.cpp       src/codegen              src/backend',
         'src/tensor     src/passes     src/lower    src/lower       src/codegen              src/backend')):
    if os.path.exists(path) and (old in read(path) or new not in read(path)):
        edit(path, old, new)
edit('docs/architecture.md', r"^\| `compile` \| passes, and the recipe that orders them; fusion.*?\n",
     '| `passes` | Graph → Graph: passes, and the recipe that orders them ([compiler.md](compiler.md)) |\n'
     '| `lower` | fusion into groups, Programs of steps over planned memory, what a backend tells the compiler |\n', regex=True)
edit('docs/architecture.md', r"^(\| `tensor` \| .*?\n)", r'''\1| `kernels` | kernels that a program brings: arrays on devices, launches, kernels as ops ([kernels.md](kernels.md)) |
''', regex=True) if '| `kernels` |' not in read('docs/architecture.md') else None
edit('docs/architecture.md', r"^(\| `io` \| .*?\n)", r'''\1| `model` | saved models ([files.md](files.md)) |
| `metrics` | how good a model is, and the history of a run |
''', regex=True) if '| `metrics` |' not in read('docs/architecture.md') else None
edit('docs/architecture.md', '| `profile` | the profiler:', '| `profiling` | the profiler:')
edit('docs/architecture.md', r"^\| `train` \| the Trainer.*?\n",
     '| `plot` | charts as SVG and PNG |\n'
     '| `training` | the Trainer ([training.md](training.md)), callbacks, checkpoints ([files.md](files.md)), TensorBoard |\n',
     regex=True)
edit('docs/architecture.md', r'`pjrt` \(StableHLO to any PJRT plugin\); what TPUs are there, and their compiler without one; '
     r'`patterns`: what libraries have, read from graphs into plain numbers',
     '`pjrt` (StableHLO to any PJRT plugin), `tpu` (what TPUs are there, and their compiler without one); before them what they '
     'share: `program` (how Programs run), `library` (libraries found at run time), `patterns` (what libraries have, read from '
     'graphs into plain numbers)', regex=True)

# ---- 6. umbrellas and forwarding headers ----------------------------------------------------------------------------
UMBRELLAS = {
    'kernels': ("A program's own kernels: sources, arrays on devices, kernels as ops on Tensors.",
                'device_array host_array kernel_op source_module'),
    'metrics': ('How good a model is, and the history of a run.', 'history metrics'),
    'model': ('Models in files.', 'saved_model'),
    'plot': ('Pictures of a run.', 'plot')}
for name, (comment, headers) in UMBRELLAS.items():
    includes = ''.join(f'#include "systole/{name}/{h}.h"\n' for h in headers.split())
    write(f'include/systole/{name}.h', f'#pragma once\n\n// {comment}\n\n{includes}')
edit('include/systole/training.h', r'\A.*\Z', '''#pragma once

// Training: the Trainer, callbacks, checkpoints and TensorBoard.

#include "systole/training/callback.h"
#include "systole/training/checkpoint.h"
#include "systole/training/tensorboard.h"
#include "systole/training/trainer.h"
''', regex=True)
everything = read('include/systole/systole.h')
everything = re.sub(r'#include "systole/kernels/\w+\.h"\n', '', everything)
lines = set(re.findall(r'#include "[^"]+"', everything)) | {f'#include "systole/{n}.h"' for n in UMBRELLAS}
head = everything[:everything.index('#include')]
write('include/systole/systole.h', head + '\n'.join(sorted(lines)) + '\n')

ALSO = {'include/systole/train.h': ['systole/metrics.h', 'systole/model.h', 'systole/plot.h', 'systole/training.h']}
NOT_PUBLIC = {'include/systole/tensor/detail/kernel_values.h'}
forwards = [(old, new) for old, new in moves.items() if old.startswith('include/') and old not in NOT_PUBLIC]
if FORWARDS:
    for old, new in forwards:
        wanted = ALSO.get(old, [new[8:]])
        write(old, '#pragma once\n\n' + f'{FORWARD}{new[8:]}; this header goes with the next release.\n\n' +
              ''.join(f'#include "{h}"\n' for h in wanted))

# ---- 7. layout ------------------------------------------------------------------------------------------------------
touched = set(git('diff', '--name-only', 'HEAD').split('\n')) | set(git('ls-files', '-o', '--exclude-standard').split('\n'))
sources = [f for f in touched if f.endswith(('.h', '.cpp')) and os.path.exists(f) and
           f.startswith(('src/', 'include/', 'tests/', 'bench/', 'examples/'))]
formatter = shutil.which('clang-format-19') or shutil.which('clang-format')
if formatter and sources:
    for i in range(0, len(sources), 100):
        subprocess.run([formatter, '-i', *sources[i:i + 100]], check=True)
elif sources:
    by_hand.append('no clang-format here: run scripts/lint --fix')

# ---- what is left ---------------------------------------------------------------------------------------------------
LEFT = re.compile(r'(?<![\w./-])(?:src/(?:compile|train|profile)\b|tests/(?:cuda|pjrt|nvrtc|nvtx|onednn|budget|docs|scripts|install|minimal)\b|'
                  r'(?:compile|profile|train)/\w+\.(?:h|cpp)\b)')
for path in tracked():
    if path in texts or path in new_places:
        if is_forward(path) or path.endswith(BINARY) or path.startswith(UNTOUCHED):
            continue
        for number, line in enumerate(read(path).split('\n'), 1):
            if LEFT.search(line) and 'cli/train/' not in line and not path.startswith('src/cli/'):
                by_hand.append(f'{path}:{number}: {line.strip()[:120]}')
print(f'{moved_now} files moved, {len(changed)} written, {len(forwards) if FORWARDS else 0} forwarding headers')
for line in by_hand:
    print('by hand:', line)
