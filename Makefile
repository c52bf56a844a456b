# make demo       bare machine -> TVM's runtime cross-built and checked on an emulated aarch64 device
# make test       everything: lint, types, unit and end-to-end tests (what CI runs)
# make test-fast  the unit tests alone (< 60 s)

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
# The end-to-end tests and the demo share these extras; the versions are pinned in pyproject.toml.
EXTRAS := dev,host,cache,adb,zig,release

.PHONY: demo test test-fast check format clean tools

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "error: $(PYTHON) is too old; Python 3.10 or newer is needed (make PYTHON=python3.x)" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	  echo "installing Python's venv module"; \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq python3-venv; \
	  else sudo -n apt-get update -qq && sudo -n apt-get install -y -qq python3-venv; fi && \
	  $(PYTHON) -m venv $(VENV); }

$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	$(PIP) install -e '.[host,cache]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(PIP) install -e '.[$(EXTRAS)]'
	@touch $@

demo: $(VENV)/.installed-demo
	$(BIN)/buildtool doctor --install
	cd examples/demo && ../../$(BIN)/buildtool linux-aarch64
	cd examples/demo && ../../$(BIN)/buildtool verify --profile linux-aarch64 --device qemu

# Debian packages that only tests use; without root they are left out and those tests skip, saying so.
TEST_PACKAGES := clang lld llvm adb openssh-server pocl-opencl-icd ocl-icd-libopencl1 mksh busybox

tools: $(VENV)/.installed-test
	$(BIN)/buildtool doctor --install
	$(BIN)/buildtool -q doctor --install --opencl >/dev/null || echo "no OpenCL for the emulated device: its tests will skip"
	@missing=$$(for p in $(TEST_PACKAGES); do dpkg -s $$p >/dev/null 2>&1 || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  else echo "not installed (needs root), their tests will skip: $$missing"; fi; fi

test: tools check
	$(BIN)/python -m pytest

test-fast: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/unit

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist examples/demo/build .test-builds .mypy_cache .ruff_cache .pytest_cache
