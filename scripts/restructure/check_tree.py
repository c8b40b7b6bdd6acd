"""Whether every include of a tree resolves and no folder includes a later one.

  python3 check_tree.py TREE                # a tree in the new layout
  python3 check_tree.py TREE --after FILE   # an old tree as it would be after the moves in FILE
"""
import collections
import os
import re
import subprocess
import sys

ORDER = ('base ir ops eval autodiff passes lower codegen runtime backend tensor kernels nn optim io model metrics data '
         'profiling plot training cli').split()
# inside backend; what stands in backend itself (backends.cpp, the registry) comes last
BACKEND = 'program library patterns reference cpu opencl cuda pjrt tpu'.split()
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)
FORWARD = '// Moved to '


def files_of(tree):
    out = subprocess.check_output(['git', '-C', tree, 'ls-files', '-co', '--exclude-standard'], text=True).split('\n')
    return [f for f in out if f and os.path.exists(os.path.join(tree, f))]


def folder(path):
    """(order key, name) of a source path below src/ or include/systole/; None: not of the tree."""
    for root in ('src/', 'include/systole/'):
        if path.startswith(root):
            parts = path[len(root):].split('/')
            top = parts[0].split('.')[0]
            if top not in ORDER:
                return None
            sub = ''
            if top == 'backend':
                sub = parts[1] if len(parts) > 2 else ''
                if root.startswith('include'):
                    sub = parts[1].split('.')[0] if len(parts) > 1 else ''
            rank = ORDER.index(top) * 100
            if top == 'backend':
                rank += BACKEND.index(sub) if sub in BACKEND else len(BACKEND)
            return rank, top + ('/' + sub if sub else '')
    return None


def resolve(name, quote, includer, have, extra=()):
    """The path of what is included, of ours; None when it is not ours."""
    places = []
    if quote == '"':
        places.append(os.path.normpath(os.path.join(os.path.dirname(includer), name)))
    places += ['src/' + name, 'include/' + name] + [e + name for e in extra]
    for place in places:
        if place in have:
            return place
    return None


TEST_ROOTS = ('tests/support/', 'tests/', 'tests/conformance/', 'tests/backend/cuda/emulated/', 'tests/backend/cuda/',
              'tests/repository/docs/', 'tests/cuda/emulated/', 'tests/cuda/', 'tests/docs/')


def main():
    tree = sys.argv[1]
    files = files_of(tree)
    moved = {}
    if len(sys.argv) > 3:
        moved = dict(line.rstrip('\n').split('\t') for line in open(sys.argv[3]))
    after = lambda path: moved.get(path, path)
    have = set(files)
    bad = collections.defaultdict(list)
    edges = collections.defaultdict(list)
    unresolved, to_forward = [], []
    forwards = set()
    for path in files:
        if path.startswith('include/') and open(os.path.join(tree, path)).read(4000).find(FORWARD) >= 0:
            forwards.add(path)
    for path in files:
        if not path.endswith(('.h', '.cpp', '.def', '.inc')) or not path.startswith(
                ('src/', 'include/', 'tests/', 'bench/', 'examples/')):
            continue
        if path in forwards:
            continue
        text = open(os.path.join(tree, path)).read()
        text = re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"', '""', text)  # sources of programs in literals
        for quote, name in INCLUDE.findall(text):
            found = resolve(name, quote, path, have, TEST_ROOTS if path.startswith(('tests/', 'bench/')) else ())
            if not found:
                first = name.split('/')[0]
                if quote == '"' or first == 'systole' or first in ORDER + ['compile', 'train', 'profile']:
                    unresolved.append(f'{path}: {name}')
                continue
            if found in forwards:
                to_forward.append(f'{path}: {name}')
            a, b = folder(after(path)), folder(after(found))
            if after(path) == 'include/systole/systole.h' or a is None or b is None:
                continue
            edges[a[1], b[1]].append((path, name))
            if b[0] > a[0]:
                bad[a[1], b[1]].append((path, name))
    for line in unresolved:
        print('unresolved', line)
    for line in to_forward:
        print('includes a forwarding header:', line)
    for (a, b), where in sorted(bad.items()):
        print(f'{a} -> {b}: {len(where)}')
        for path, name in where:
            print(f'    {after(path)} ({path}): {name}')
    print(f'{len(files)} files, {sum(map(len, edges.values()))} includes, {len(unresolved)} unresolved, '
          f'{len(to_forward)} of forwarding headers, {sum(map(len, bad.values()))} against the order')
    return 1 if unresolved or to_forward or bad else 0


if __name__ == '__main__':
    sys.exit(main())
