# People and CI use the same targets. Each target first checks that its few system packages are installed (scripts/deps).
# As root it installs the missing ones, otherwise it prints the command that installs them.

CARGO ?= cargo
PROGRAM ?= target/release/longhaul
# For `longhaul --version --verbose`. Each target that writes target/release/longhaul has it.
build bench test-kernels: export LONGHAUL_COMMIT = $(shell git describe --always --exclude='*' --abbrev=40 --dirty 2>/dev/null || echo unknown)
# The recipes of install and uninstall do not quote DESTDIR.
$(if $(word 2,$(DESTDIR))$(findstring %,$(DESTDIR)),$(error DESTDIR has a blank or a percent sign))
# The directories of rustup's cargo, and of `ip` and `sshd`, which Debian leaves out of an ordinary user's PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

# The targets share target/, and `make deb rpm tarball` one folder of files.
.NOTPARALLEL:

.PHONY: help build demo readme-table test test-systemd test-kernels test-resets test-packages test-image test-msrv test-all lint texts fuzz bench deps install uninstall deb rpm tarball image release clean

help:            ## lists the targets (the default)
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 24

build:           ## builds the program: target/release/longhaul; its debug symbols are in longhaul.debug beside it
	scripts/deps build
	$(CARGO) build --release --locked --bin longhaul
	scripts/split-symbols target/release/longhaul

demo: build      ## copies between two old hosts, 63 ms apart: direct, socat, HAProxy, longhaul (`make demo ARGS="--rtt 100ms"`)
	scripts/deps demo
	scripts/demo $(ARGS)

readme-table: build ## writes README's table from five undisturbed runs of the demo (10 to 30 minutes, on a quiet machine)
	scripts/deps demo
	scripts/readme-table

test:            ## runs every test; ends with the skipped tests and the reasons
	scripts/deps test
	CARGO="$(CARGO)" scripts/test

test-systemd: build ## tests the units under a systemd that is PID 1 in its own namespaces (as root, a minute)
	scripts/deps test-systemd
	scripts/test-systemd $(ARGS)

test-kernels:    ## tests endings, options and fast open on Linux 4.4 to 6.1, and on ppc64le, in qemu (`make test-kernels ARGS=5.10`)
	scripts/deps test-kernels
	scripts/test-kernels $(ARGS)

test-resets: build ## tests that each host learns of a reset within 15 s over a lossy WAN (as root, three minutes)
	scripts/deps demo
	target/release/longhaul lab run resets

test-msrv:       ## builds and tests with Rust 1.85 and gcc, then by qemu-user for ppc64le and s390x (as root, half an hour)
	scripts/deps test-msrv
	scripts/test-msrv $(ARGS)

test-all:        ## runs all of them, and writes the results to docs/tested.md
	scripts/test-all $(ARGS)

lint:            ## checks formatting, clippy, rustdoc, scripts, units, links, the house rules
	scripts/deps lint
	scripts/lint

texts:           ## updates the checked-in texts that come from tables (help, manuals' tables, messages); read the diff
	UPDATE=1 $(CARGO) test --quiet -p longhaul-config -p longhaul-link
	UPDATE=1 $(CARGO) test --quiet -p longhaul-lab --lib
	UPDATE=1 $(CARGO) test --quiet -p longhaul-doctor --lib
	UPDATE=1 $(CARGO) test --quiet -p longhaul-relay --lib no_released
	UPDATE=1 $(CARGO) test --quiet -p longhaul --lib --bin longhaul -- docs_metrics_md no_released
	UPDATE=1 TRYCMD=overwrite $(CARGO) test --quiet -p longhaul --test cli --test scenario

fuzz:            ## runs each fuzz target for 30 s (`make fuzz TIME=300`)
	scripts/deps fuzz
	scripts/fuzz $(or $(TIME),30)

bench: build     ## measures everything in docs/benchmarks.md again (as root; `make bench ARGS="--only one-hop"`)
	scripts/deps bench
	$(if $(ARGS),,$(CARGO) test --release --locked -p longhaul --test lab_precise -- --test-threads 1)
	benches/run $(ARGS)

deps:            ## installs the system packages of all targets
	scripts/deps build demo test test-systemd test-kernels test-msrv lint fuzz bench package release test-packages test-image

install:         ## installs into DESTDIR the files of packaging/files: program, symbols, man pages, units, documents, a sample file
	@scripts/stage install "$(DESTDIR)" "$(PROGRAM)"
	@echo "To put it in force without a reboot, with round trip and rate of your path:"
	@echo "sudo systemctl daemon-reload && sudo longhaul tune --rtt 63ms --rate 1Gbit/s"

uninstall:       ## removes the files of `make install` from DESTDIR; /etc/longhaul stays
	@test ! -e $(DESTDIR)/var/lib/longhaul/tune.json || \
		{ echo "longhaul: restore the sysctls first: sudo longhaul tune --rollback" >&2; exit 1; }
	@scripts/stage remove "$(DESTDIR)" "$(PROGRAM)"
	@echo "Kept: $(DESTDIR)/etc/longhaul. Units that run are not stopped:"
	@echo "docs/install.md, \"Removing it\""

deb rpm tarball: ## makes a package in target/package (`make deb ARCH=arm64`); the first time 15 minutes, then 8
	scripts/deps package
	scripts/package $(if $(ARCH),--arch $(ARCH)) $@

release:         ## makes the files of a release from a clean tag: packages, SBOMs, signed SHA256SUMS (`make release KEY=FILE`)
	scripts/deps package release
	scripts/release "$(KEY)"

image:           ## makes an OCI image of the program in target/package (`make image ARCH=arm64`), without a container daemon
	scripts/deps package
	scripts/package $(if $(ARCH),--arch $(ARCH)) tarball
	scripts/image $(if $(ARCH),--arch $(ARCH))

test-packages:   ## installs, upgrades and removes the packages in roots of Debian and Ubuntu, and builds them once more (as root; an hour)
	scripts/deps package test-packages
	scripts/package deb rpm tarball
	scripts/package --arch arm64 deb
	scripts/package --arch ppc64el deb
	scripts/test-packages $(ARGS)

test-image:      ## runs the image under podman and docker, and checks the compose file and the Helm chart (as root)
	scripts/deps package test-image
	scripts/package tarball
	scripts/image
	scripts/test-image $(ARGS)

clean:           ## removes everything that the other targets built
	$(CARGO) clean
	rm -rf fuzz/target fuzz/artifacts
