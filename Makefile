# Short names for the common ways; everything else is cmake --preset and ctest --preset. `make help` lists them.
.PHONY: build install demo test check soak bench format lint clean help setup

PREFIX ?= /usr/local

build: setup  ## the library and the command, left at build/systole
	@cmake --preset release --log-level=NOTICE
	@cmake --build --preset release

install: setup  ## the library, its headers and the command into PREFIX; PREFIX=/usr/local
	@cmake --preset release --log-level=NOTICE
	@cmake --build --preset release --target systole_command
	@cmake --install build --prefix $(PREFIX)

demo: setup  ## trains a network on digits that come with it, and leaves a model, plots and a history in build/demo
	@cmake --preset release --log-level=NOTICE
	@cmake --build --preset release --target systole_command
	@build/systole train --model mlp --data digits --out build/demo --fresh --set train.epochs=6 --set train.batch=64

test:  ## everything a change must pass: release tests, then each fuzzer for 20 s
	@scripts/test

check:  ## before a submission: format, address, undefined-behaviour and thread sanitizers, slow tests
	@scripts/check

MINUTES ?= 10
SEED ?= 20260
GRAPHS ?= 0
soak: setup  ## random graphs against plain evaluation: MINUTES=10 SEED=20260 GRAPHS=100 DEVICES=cpu KINDS=loop
	@cmake --preset release --log-level=NOTICE
	@cmake --build --preset release --target random_soak
	@SYSTOLE_CACHE=0 SYSTOLE_PLUGIN_PATH=$${SYSTOLE_PLUGIN_PATH:-.deps} nice -n 19 \
	  build/tests/conformance/random_soak --minutes $(MINUTES) --seed $(SEED) --graphs $(GRAPHS) --now build/soak.now \
	  $(if $(DEVICES),--devices $(DEVICES)) $(if $(KINDS),--kinds $(KINDS)) || \
	  { status=$$?; echo "soak: ended with $$status; when it ended: $$(cat build/soak.now)"; exit $$status; }

bench: build  ## what the core costs on this machine, and how fast data comes
	@build/bench/core_bench
	@build/bench/data_bench

format:  ## lay the sources out by .clang-format
	@scripts/lint --fix

lint: build  ## layout and the clang-tidy list; FILES="src/ir/graph.cpp …" for some only
	@scripts/lint $(FILES)

clean:  ## remove every build folder
	@rm -rf build build-debug build-asan build-tsan build-fuzz

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

setup:
	@scripts/setup
