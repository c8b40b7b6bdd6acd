#!/usr/bin/env python3
"""Makes the fixtures of the conformance suite: NAME.sir and NAME.npz for every primitive and composite.

Expected values come from numpy, scipy, JAX or a few lines of arithmetic here, never from the library under
test. The same versions give the same bytes. Made with numpy 2.2.6, scipy 1.17.1, jax 0.10.2 and ml_dtypes 0.6.0:

    python tests/conformance/make_fixtures.py [--out FOLDER] [ROW …]
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import numpy as np  # noqa: E402

from generate import MODULES  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description="Makes the fixtures of the conformance suite.")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "fixtures")
    parser.add_argument("rows", nargs="*", help="only these rows")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    np.seterr(all="ignore")
    for module in MODULES:
        for name, make in module.ROWS.items():
            if not arguments.rows or name in arguments.rows:
                row = make(name)
                row.write(arguments.out)
                print(f"{name}: {row.cases} cases")


if __name__ == "__main__":
    main()
