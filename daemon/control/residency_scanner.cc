// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/residency_scanner.h"

#include <algorithm>
#include <utility>

#include "daemon/rss/residency_scan.h"
#include "daemon/util/clock.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kTick{1000};

}  // namespace

ResidencyScanner::ResidencyScanner(std::function<std::vector<ResidencyTarget>()> list)
    : list_(std::move(list)),
      thread_({"c blocks", "to read the pages of native blocks", kTick}, [this] {
        check();
        return kTick;
      }) {}

std::chrono::nanoseconds ResidencyScanner::rest_after(std::chrono::nanoseconds cpu_time) {
  return std::max<std::chrono::nanoseconds>(kInterval, cpu_time * kRest);
}

void ResidencyScanner::check() {
  const std::vector<ResidencyTarget> targets = list_();
  std::erase_if(watched_, [&](const auto& watched) {
    return std::ranges::find(targets, watched.first, &ResidencyTarget::pid) == targets.end();
  });
  for (const ResidencyTarget& target : targets) advance_scan(target, watched_[target.pid]);
}

void ResidencyScanner::advance_scan(const ResidencyTarget& target, Watched& watched) {
  if (watched.check) {
    if (!watched.check->done()) return;
    Scan scan = watched.check->take();
    watched.check.reset();
    watched.next = Clock::now() + rest_after(scan.cpu_time);
    if (!scan.blocks.empty()) target.keep(std::move(scan.blocks));
  } else if (Clock::now() >= watched.next) {
    begin_inspection(target, watched);
  }
}

void ResidencyScanner::begin_inspection(const ResidencyTarget& target, Watched& watched) {
  watched.next = Clock::now() + kInterval;
  std::vector<NativeBlock> blocks = target.blocks();
  if (blocks.empty()) return;
  auto check = Inspection<Scan>::start(
      [pid = target.pid, memory = target.memory,
       blocks = std::move(blocks)](const std::stop_token& stop) mutable {
        const std::uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);  // a thread of its own
        auto scan = scan_residency(pid, *memory, std::move(blocks), stop);
        return Scan{scan.ok() ? *std::move(scan) : ResidencyScan(),
                    std::chrono::nanoseconds(clock_ns(CLOCK_THREAD_CPUTIME_ID) - began)};
      },
      [] {});
  if (check.ok()) watched.check = *std::move(check);
}

}  // namespace memprofd
