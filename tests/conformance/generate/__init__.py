"""The rows of the conformance table: each module has ROWS, from a row's name to its maker."""

import importlib

MODULES = [
    importlib.import_module(f"{__name__}.{module}")
    for module in (
        "elementwise",
        "conversion",
        "sources",
        "movement",
        "indexing",
        "scatter",
        "reductions",
        "contractions",
        "control",
        "collectives",
        "normalization",
        "layers",
        "optimizers",
    )
]
