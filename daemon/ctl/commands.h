// The subcommands of memprofctl. Each prints its result to stdout and returns
// the status that decides the exit code; the caller prints the error.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/ctl/client.h"
#include "daemon/ctl/top_view.h"

namespace memprofd::ctl {

// What the command line says, for all subcommands.
struct Options {
  Endpoint endpoint;
  bool json = false;
  int pid = 0;           // 0: the only target
  std::string rate;      // "1e-5"
  std::string interval;  // "512KiB": bytes per sample, instead of rate
  bool no_inject = false;
  pb::SiteOrder order = pb::SITE_ORDER_LIVE;
  int limit = -1;  // sites; 0: all; -1: the command's default
  std::string pattern;
  bool callstacks = false;
  TopOptions top;
};

absl::Status run_targets(const Options& options);
absl::Status run_attach(const Options& options);
absl::Status run_detach(const Options& options);
absl::Status run_rate(const Options& options);
absl::Status run_sites(const Options& options);
absl::Status run_report(const Options& options);
absl::Status run_top_command(const Options& options);
// kUnavailable without a daemon, kPermissionDenied when kernel or privileges
// have a problem, kFailedPrecondition when the program has one.
absl::Status run_doctor(const Options& options);

}  // namespace memprofd::ctl
