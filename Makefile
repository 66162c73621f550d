# `make` alone names the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build install demo test test-kubernetes lint vm-list vm-test

# A cargo that `make setup` has just installed is not on the PATH of this shell yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

VM_TESTS := cargo run --quiet --package vm-tests --

help: ## Name the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## Install what building and testing need (asks first; YES=1 does not ask)
	@./scripts/setup

build: setup-build ## Build the program for this machine
	cargo build --release --package cgroup2-migrate

# Where `install` puts things. The unit names its program by its place, so that follows PREFIX.
DESTDIR ?=
PREFIX ?= /usr
UNIT := cgroup2-migrate-resume.service
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system

install: ## Install program and unit (as root, after `make build`); DESTDIR= and PREFIX= as usual
	@test -x target/release/cgroup2-migrate || { echo "run \`make build\` first" >&2; exit 1; }
	install -D -m 755 target/release/cgroup2-migrate $(DESTDIR)$(PREFIX)/bin/cgroup2-migrate
	install -d $(UNITS)/multi-user.target.wants
	sed 's|^ExecStart=/usr/bin/|ExecStart=$(PREFIX)/bin/|' systemd/$(UNIT) >$(UNITS)/$(UNIT)
	chmod 644 $(UNITS)/$(UNIT)
	ln -sfn ../$(UNIT) $(UNITS)/multi-user.target.wants/$(UNIT)
	@if [ -z "$(DESTDIR)" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

demo: setup-vm ## Watch a virtual machine being migrated from cgroup v1 to v2
	@$(VM_TESTS) demo

test: setup-tests ## Run every test that needs no virtual machine and no Kubernetes
	cargo test --workspace

test-kubernetes: setup-kubernetes ## Run the tests that need a real API server (builds it once: minutes)
	@programs=$$(./scripts/kube-binaries etcd kube-apiserver kubectl) && KUBE_BIN_DIR=$$programs cargo test --package kube-tests

lint: setup-build ## Check formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

vm-list: setup-build ## Name the scenarios of vm-test
	@$(VM_TESTS) list

vm-test: setup-vm ## Run scenarios in virtual machines: all, or SCENARIO="a b"
	@$(VM_TESTS) run $(SCENARIO)

# What `setup` does, for one purpose only.
setup-%:
	@./scripts/setup $*
