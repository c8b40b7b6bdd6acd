"""python3 check_flags.py OLD/build NEW/build OLDTREE NEWTREE moves.tsv: the same files are compiled with the same flags."""
import json, re, sys
ob, nb, ot, nt, mv = sys.argv[1:]
moves = dict(l.rstrip('\n').split('\t') for l in open(mv))
def load(build, tree):
    out = {}
    for c in json.load(open(build + '/compile_commands.json')):
        f = c['file'].replace(tree + '/', '')
        a = [x for x in c['command'].replace(build, 'B').replace(tree, 'T').split()]
        # drop output, source, launcher, cmake_pch paths
        keep = []
        skip = False
        for x in a:
            if skip: skip = False; continue
            if x in ('-o', '-c', '-MF', '-MT'): skip = True; continue
            if 'cmake_pch' in x: x = re.sub(r'.*/CMakeFiles/([\w]+)\.dir.*', r'pch:\1', x)
            keep.append(x)
        target = re.search(r'CMakeFiles/([\w]+)\.dir', c['command'])
        out.setdefault(f, []).append((target[1] if target else '', keep))
    return out
o, n = load(ob, ot), load(nb, nt)
bad = 0
for f, cs in sorted(o.items()):
    g = moves.get(f, f).replace('build/embedded', 'build/embedded')
    if g not in n:
        print('not compiled any more:', f, '->', g); bad += 1; continue
    for (t1, a), (t2, b) in zip(sorted(cs, key=lambda c: len(c[1])), sorted(n[g], key=lambda c: len(c[1]))):
        norm = lambda xs: [x.replace('T/tests/support', '').replace('systole_cli_training', 'systole_training') for x in xs]
        d = (set(a) ^ set(b)) - {'-IT/tests/support', '-IT/tests'}
        d = {x for x in d if not (x.startswith('-I') and 'tests' in x) and 'SYSTOLE_FAKE' not in x and 'FIXTURES' not in x}
        if d:
            bad += 1
            print(g, t1, t2, sorted(d)[:6])
for g in sorted(set(n) - {moves.get(f, f) for f in o}):
    print('new:', g)
print(len(o), len(n), bad)
