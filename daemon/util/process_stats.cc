// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

namespace memprofd {
namespace {

std::uint64_t count_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error), end;
  return error ? 0 : static_cast<std::uint64_t>(std::distance(all, end));
}

// Start time: field 22 of stat, in ticks since boot.
double read_start() {
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{}, up{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  const double booted = static_cast<double>(now.tv_sec - up.tv_sec) +
                        static_cast<double>(now.tv_nsec - up.tv_nsec) * 1e-9;
  const double ticks = std::strtod(field.c_str(), nullptr);
  return ticks == 0 ? 0 : booted + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessStats process_stats() {
  static const double started = read_start();
  ProcessStats stats{.start_unix_seconds = started, .open_descriptors = count_descriptors()};
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_descriptors = limit.rlim_cur;
  return stats;
}

}  // namespace memprofd
