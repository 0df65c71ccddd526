# Each target sets up what it needs and can be run again at any time, by any user who can read this folder:
# lint and tests keep no cache here, as one user's cache stops another's mypy.
ifneq ($(shell uname -s),Linux)
$(error this is $(shell uname -s), and fabriclab runs on Linux: type "vagrant up", then "vagrant ssh" (docs/vm.md))
endif

.NOTPARALLEL:
.PHONY: help setup packages environment kernel examples demo notebook docs test lint fuzz bench clean

PYTHON = $(shell /usr/bin/python3 lab/cache.py)

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16

setup: packages environment kernel  ## packages, Python environment, lab kernel: what is missing of them

packages environment examples:
	@./provision.sh $@

kernel: packages environment  ## build the lab kernel (once, about ten minutes of one core)
	@./provision.sh kernel

demo: setup  ## set up, run the incast experiments, write a report
	./run_experiment demo

notebook: setup  ## set up, open the notebooks in Jupyter Lab (where there is no display: prints the address)
	cd analysis/notebooks && exec $(PYTHON) -m jupyterlab --ServerApp.root_dir=. \
		$(if $(filter 0,$(shell id -u)),--allow-root) $(if $(DISPLAY)$(WAYLAND_DISPLAY),,--no-browser)

docs: packages environment  ## the documentation as a site, every link of it checked: site/index.html
	$(PYTHON) -m mkdocs build --strict

test: setup examples lint  ## set up, also what the examples run on, lint, run every test: on all cores, then alone what needs that
	$(PYTHON) -m pytest -p no:cacheprovider -n logical --dist loadfile --no-loadscope-reorder -m "not alone"
	$(PYTHON) -m pytest -p no:cacheprovider -m alone

lint: packages environment  ## ruff and mypy
	$(PYTHON) -m ruff check --no-cache
	$(PYTHON) -m mypy --cache-dir=/dev/null

fuzz: packages environment  ## 100,000 damaged and strange captures through reader and analyze, on all cores
	$(PYTHON) -m tests.fuzz.run

bench: setup  ## measure what the project promises: rates, times, packets per second
	./run_experiment bench

clean:  ## remove the tools' caches and the built documentation from this folder (not the results)
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache site
	find . -name results -prune -o -name __pycache__ -type d -exec rm -r {} +
