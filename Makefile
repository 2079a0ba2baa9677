# `make demo` and `make test` are all you need; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo demo-train test check

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "clearhead needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/python scripts/demo.py

demo-train: setup
	$(BIN)/python scripts/demo_train.py

check: setup
	scripts/check

# With triton (in the dev extra) this includes tests/accel/kernels, run by Triton's interpreter on the CPU.
test: check
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m 'not slow and not gpu'
