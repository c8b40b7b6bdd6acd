"""Control flow, composites with a body of their own, kernel calls and barriers. These ops have no tolerance:
the bodies compute with integers and small whole floats, so that every result is exact.
"""

import numpy as np

from . import dtypes as dt
from .row import Exact, Raw, Row, type_text

SHAPES = [(3, 5), (), (0, 3), (7,), (1,), (67,)]


def text_of(array):
    return type_text(dt.name_of(array), array.shape)


def scan(op):
    row = Row(op)
    # Every dtype: each step gives out the carry and keeps the element.
    for i, name in enumerate(dt.ANY):
        length, element = [5, 3, 0, 1][i % 4], SHAPES[i % len(SHAPES)]
        start, xs = dt.sample_bits(row.rng, name, element), dt.sample_bits(row.rng, name, (length, *element))
        row.graph(
            f"graph @shift{i}(%carry: {text_of(start)}, %x: {text_of(start)}) {{\n  return %x, %carry\n}}"
        )
        reverse = i % 2 == 1
        steps = [start, *(xs[::-1] if reverse else xs)]
        ys = np.array(steps[:-1], xs.dtype).reshape(xs.shape)
        attrs = {"length": length, "carries": 1, "xs": 1, "reverse": reverse}
        row.check(
            op,
            attrs,
            [start, xs],
            Exact(np.asarray(steps[-1])),
            Exact(ys[::-1] if reverse else ys),
            graphs=[f"shift{i}"],
        )
    # Two carries, two xs and a constant: a running sum, and a product modulo 2^32.
    row.graph("""
graph @step(%sum: f32[3], %product: i32[], %x: f32[3], %n: i32[], %factor: f32[3]) {
  %scaled = mul(%x, %factor) : f32[3]
  %next = add(%sum, %scaled) : f32[3]
  %power = mul(%product, %n) : i32[]
  return %next, %power, %power, %next
}""")
    for length in [7, 1, 0]:
        for reverse in [False, True]:
            total, product = np.array([1, 2, 3], np.float32), np.int32(3)
            xs = dt.as_type(row.rng.integers(-4, 5, (length, 3)), "f32")
            ns, factor = row.rng.integers(3, 90, (length,)).astype(np.int32), np.array(
                [1, -2, 0.5], np.float32
            )
            powers, sums = np.zeros(length, np.int32), np.zeros((length, 3), np.float32)
            for t in range(length)[::-1] if reverse else range(length):
                total = total + xs[t] * factor
                product = dt.wrap(int(product) * int(ns[t]), "i32")
                sums[t], powers[t] = total, product
            attrs = {"length": length, "carries": 2, "xs": 2, "reverse": reverse}
            operands = [np.array([1, 2, 3], np.float32), np.int32(3), xs, ns, factor]
            row.check(
                op,
                attrs,
                operands,
                Exact(total),
                Exact(np.asarray(product)),
                Exact(powers),
                Exact(sums),
                graphs=["step"],
            )
    # Only constants, stacked; and a scan inside a scan.
    row.graph("graph @repeat(%x: i32[3]) {\n  return %x\n}")
    x = np.array([1, 2, 3], np.int32)
    row.check(op, {"length": 5}, [x], Exact(np.tile(x, (5, 1))), graphs=["repeat"])
    row.graph("graph @add(%sum: i32[], %x: i32[]) {\n  %next = add(%sum, %x) : i32[]\n  return %next\n}")
    row.graph("""
graph @rows(%sum: i32[], %row: i32[5]) {
  %next = scan(%sum, %row) {length=5, carries=1, xs=1} @add : i32[]
  return %next, %next
}""")
    x = row.rng.integers(-9, 10, (3, 5)).astype(np.int32)
    sums = np.cumsum(x.sum(1)).astype(np.int32)
    row.check(
        op,
        {"length": 3, "carries": 1, "xs": 1},
        [np.int32(0), x],
        Exact(sums[-1]),
        Exact(sums),
        graphs=["rows"],
    )
    return row


def while_loop(op):
    row = Row(op)
    # Every dtype: swap two values as often as the counter says.
    for i, name in enumerate(dt.ANY):
        shape = SHAPES[i % len(SHAPES)]
        a, b = dt.sample_bits(row.rng, name, shape), dt.sample_bits(row.rng, name, shape)
        signature = f"%n: i32[], %a: {text_of(a)}, %b: {text_of(a)}"
        row.graph(f"""
graph @more{i}({signature}) {{
  %zero = constant() {{value=i32[](0)}}
  %go = greater(%n, %zero) : bool[]
  return %go
}}
graph @swap{i}({signature}) {{
  %one = constant() {{value=i32[](1)}}
  %left = sub(%n, %one) : i32[]
  return %left, %b, %a
}}""")
        case = row.case()
        n = np.int32([3, 0, 4, 1][i % 4])
        swapped = n % 2 == 1
        operands = case.inputs(n=n, a=a, b=b)
        results = [
            Exact(np.asarray(min(n, np.int32(0)))),
            Exact(b if swapped else a),
            Exact(a if swapped else b),
        ]
        case.expect(op, operands, {"carries": 3}, *results, graphs=[f"more{i}", f"swap{i}"])
    # Collatz steps with the limit as a constant.
    row.graph("""
graph @not_one(%n: i64[], %steps: i64[], %limit: i64[]) {
  %one = constant() {value=i64[](1)}
  %other = not_equal(%n, %one) : bool[]
  %few = less(%steps, %limit) : bool[]
  %go = bitwise_and(%other, %few) : bool[]
  return %go
}
graph @collatz(%n: i64[], %steps: i64[], %limit: i64[]) {
  %one = constant() {value=i64[](1)}
  %two = constant() {value=i64[](2)}
  %three = constant() {value=i64[](3)}
  %rest = rem(%n, %two) : i64[]
  %odd = equal(%rest, %one) : bool[]
  %half = div(%n, %two) : i64[]
  %triple = mul(%n, %three) : i64[]
  %up = add(%triple, %one) : i64[]
  %next = select(%odd, %up, %half) : i64[]
  %count = add(%steps, %one) : i64[]
  return %next, %count
}""")
    for start, limit in [(27, 1000), (97, 5), (1, 10), (7, 0)]:
        n, steps = start, 0
        while n != 1 and steps < limit:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        operands = [np.int64(start), np.int64(0), np.int64(limit)]
        row.check(
            op,
            {"carries": 2},
            operands,
            Exact(np.asarray(np.int64(n))),
            Exact(np.asarray(np.int64(steps))),
            graphs=["not_one", "collatz"],
        )
    return row


def cond(op):
    row = Row(op)
    for i, name in enumerate(dt.ANY):
        shape = SHAPES[i % len(SHAPES)]
        a, b = dt.sample_bits(row.rng, name, shape), dt.sample_bits(row.rng, name, shape)
        row.graph(f"graph @first{i}(%a: {text_of(a)}, %b: {text_of(a)}) {{\n  return %a\n}}")
        row.graph(f"graph @second{i}(%a: {text_of(a)}, %b: {text_of(a)}) {{\n  return %b\n}}")
        for p in [np.bool_(True), np.bool_(False)]:
            row.check(op, None, [p, a, b], Exact(a if p else b), graphs=[f"first{i}", f"second{i}"])
    # Several results, without operands and with a cond inside.
    row.graph("""
graph @ten() {
  %x = constant() {value=i32[3](10, 20, 30)}
  %y = constant() {value=bool[](true)}
  return %x, %y
}
graph @one() {
  %x = constant() {value=i32[3](1, 2, 3)}
  %y = constant() {value=bool[](false)}
  return %x, %y
}""")
    row.graph(
        "graph @inner(%p: bool[]) {\n  %x, %y = cond(%p) @one @ten : i32[3], bool[]\n  return %x, %y\n}"
    )
    row.graph(
        "graph @outer(%p: bool[]) {\n  %x, %y = cond(%p) @ten @one : i32[3], bool[]\n  return %x, %y\n}"
    )
    ten, one = np.array([10, 20, 30], np.int32), np.array([1, 2, 3], np.int32)
    for p in [np.bool_(True), np.bool_(False)]:
        row.check(op, None, [p], Exact(ten if p else one), Exact(np.asarray(p)), graphs=["ten", "one"])
        for q in [np.bool_(True), np.bool_(False)]:
            tens = (p and not q) or (not p and q)
            row.check(
                op,
                None,
                [p, q],
                Exact(ten if tens else one),
                Exact(np.bool_(tens)),
                graphs=["inner", "outer"],
            )
    return row


def swap_rows(op, attributes):
    """For every dtype a body that swaps its two operands, and one that computes."""
    row = Row(op.split()[0])
    for i, name in enumerate(dt.ANY):
        shape = SHAPES[i % len(SHAPES)]
        a, b = dt.sample_bits(row.rng, name, shape), dt.sample_bits(row.rng, name, shape)
        row.graph(f"graph @swap{i}(%a: {text_of(a)}, %b: {text_of(a)}) {{\n  return %b, %a\n}}")
        row.check(op, attributes([text_of(b), text_of(a)]), [a, b], Exact(b), Exact(a), graphs=[f"swap{i}"])
    row.graph("""
graph @polynomial(%x: i32[3,5]) {
  %square = mul(%x, %x) : i32[3,5]
  %y = sub(%square, %x) : i32[3,5]
  return %y
}""")
    for x in [row.rng.integers(-99, 100, (3, 5)).astype(np.int32) for _ in range(2)]:
        row.check(op, attributes([text_of(x)]), [x], Exact(x * x - x), graphs=["polynomial"])
    return row


def composite(op):
    """A user's composite is not registered; its attributes mean nothing but to who claims it."""
    return swap_rows("composite user.swap", lambda types: {"level": 3, "rate": 0.5, "tag": "x"})


def kernel_call(op):
    return swap_rows(op, lambda types: {"name": "user_kernel", "results": [Raw(t) for t in types]})


def barrier(op):
    row = Row(op)
    for i, name in enumerate(dt.ANY):
        a, b = dt.sample_bits(row.rng, name, SHAPES[i % len(SHAPES)]), dt.sample(
            row.rng, dt.ANY[(i + 4) % 15], (7,)
        )
        operands = [a, b] if i % 2 else [a]
        row.check(op, None, operands, *(Exact(x) for x in operands))
    return row


def stop_gradient(op):
    row = Row(op)
    for i, name in enumerate(dt.ANY):
        x = dt.sample_bits(row.rng, name, SHAPES[i % len(SHAPES)])
        row.check(f"composite {op}", None, [x], Exact(x))
    return row


ROWS = {
    "scan": scan,
    "while_loop": while_loop,
    "cond": cond,
    "composite": composite,
    "kernel_call": kernel_call,
    "barrier": barrier,
    "stop_gradient": stop_gradient,
}
