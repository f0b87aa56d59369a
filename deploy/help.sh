#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The targets of the Makefile that one would use, in groups.
cat << 'END'
Try it
  make demo             install missing packages, build, profile a bundled server for 20 s
  make test             install missing packages, build, run every test
  make help             this list

Build and install
  make                  memprofd, memprofctl and libmemprof_agent.so in build/
  make install          in DESTDIR= PREFIX=/usr/local; make uninstall removes it
  make deb              a Debian package; make image IMAGE=memprofd:VERSION: an image of it
  make dist             a tarball that runs on any distribution with glibc 2.34 or later
  make clean            remove build/

While developing
  make unit UNIT=pairing          one unit test: tests/unit/ingest/pairing_test.cc
  make unit-test                  all unit tests, without sanitizers
  make e2e-test MODULE=test_attach   one module with real programs
  make format, make lint          clang-format; clang-tidy and each file compiled alone
  make compile_commands.json      for clangd
  make timings                    how long building and testing take, as a table
  make V=1                        show commands; UNITY=0 compiles file by file

Tests that take longer
  make test-matrix      every OCaml release and real programs: an hour
  make test-kernels     kernels of other Debian releases in virtual machines: ten minutes
  make test-dist        the tarball of make dist on Debian 11 to 14: five minutes
  make tsan             ThreadSanitizer: unit tests of threads (make test has a short form), and
                        memprofd with real programs
  make fuzz             libFuzzer on each parser of hostile input, FUZZ_SECONDS=3600 each
  make soak             an hour under load and faults; soak-snapshots, large-snapshots

Measure
  make bench            overhead, cost per sample, latency, ingest rate: BENCHMARKS.md
  make bench-compare BASE=main    an earlier revision beside this tree
  make calibrate        the tables of docs/internals/accuracy.md

Generate
  make grafana-dashboards         after changes in dashboards/grafana-src
  make pictures                   the page's pictures in docs: half an hour
END
