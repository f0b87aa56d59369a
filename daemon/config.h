// SPDX-License-Identifier: Apache-2.0
// The command line of memprofd.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/attach/attach_options.h"
#include "daemon/attach/kernel/capture_mode.h"
#include "daemon/control/heap_watch.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/grpc_tls.h"
#include "daemon/export/metrics/prometheus_exporter.h"
#include "daemon/model/control.h"
#include "daemon/trace/trace_files.h"

namespace memprofd {

struct Config {
  std::vector<int> pids;
  std::vector<std::string> names;             // of programs that are profiled whenever they start
  double sampling_rate = kUsualSamplingRate;  // samples per word
  double max_overhead = kUsualMaxOverhead;    // share of a program's CPU; 0: no budget
  bool no_inject = false;
  bool follow_forks = false;
  std::uint64_t native_heap_interval = 0;  // bytes of native heap per sample; 0: not profiled
  std::uint64_t native_heap_max_hits =
      kUsualNativeHeapMaxHits;  // a second, of probes that follow it
  AttachMode mode = AttachMode::kAuto;
  std::string agent_path;  // empty: beside or installed with this program
  CaptureMode capture = CaptureMode::kAuto;
  std::uint32_t max_frames = 4096;
  std::uint32_t ring_bytes = 0;              // per target; 0: by the rate it is attached with
  SiteLimits top_sites;                      // with series of their own
  std::size_t history_bytes = 128u << 20;    // of all targets together
  double cpu_max = kUsualCpuMax;             // of a processor, for this process; 0: no bound
  std::uint64_t memory_max = 0;              // of this process; 0: not given
  double retention_seconds = 3600;           // of targets that ended
  std::string state_directory;               // empty: nothing outlives this memprofd
  std::uint64_t state_max_bytes = 1u << 30;  // of its files
  std::string trace_directory;               // empty: traces are only streamed
  std::uint64_t trace_max_bytes = kUsualTraceBytes;  // of all in it
  HeapWatchOptions heap_watch;                       // without rules: none is taken but on request
  std::string rules_file;                            // rules/memory_rule.h; empty: none
  std::vector<std::string> heap_cmt;                 // places of compilers' files
  std::string web_listen_address = "127.0.0.1:9871";
  std::string web_config_file;
  bool web_enable_control = false;
  std::vector<std::string> web_host_names;
  std::vector<std::string> web_controllers;
  std::string grpc_socket;
  std::string grpc_listen_address;  // empty: off
  GrpcTls grpc_tls;                 // of that
  GrpcAccessOptions grpc_access;
  std::string log_level = "info";
  std::string log_format = "logfmt";
};

// Result of parsing: run, or end with this exit code, because help or version were requested or the
// command line is wrong; the text was printed.
struct ParsedConfig {
  Config config;
  bool run = false;
  int exit_code = 0;
};
ParsedConfig parse_config(int argc, char** argv);

// Bytes for the data of targets, besides history and memprofd itself. kInvalidArgument: history
// would take most of --memory.max.
absl::StatusOr<std::uint64_t> target_memory(const Config& config);

}  // namespace memprofd
