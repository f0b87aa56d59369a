// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/c_block_keeper.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "daemon/rss/c_block_look.h"
#include "daemon/util/guard.h"

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kTick{1000};

}  // namespace

CBlockKeeper::CBlockKeeper(std::function<std::vector<CBlockTarget>()> list)
    : list_(std::move(list)), thread_([this] { run(); }) {}

void CBlockKeeper::stop() {
  stop_.stop();
  if (thread_.joinable()) thread_.join();
}

std::chrono::nanoseconds CBlockKeeper::rest_after(std::chrono::nanoseconds took) {
  return std::max<std::chrono::nanoseconds>(kInterval, took * kRest);
}

void CBlockKeeper::run() {
  ::pthread_setname_np(::pthread_self(), "c blocks");
  while (stop_.wait(kTick)) guarded("to read the pages of native blocks", [this] { look(); });
}

void CBlockKeeper::look() {
  const std::vector<CBlockTarget> targets = list_();
  std::erase_if(watched_, [&](const auto& watched) {
    return std::ranges::find(targets, watched.first, &CBlockTarget::pid) == targets.end();
  });
  for (const CBlockTarget& target : targets) see_to(target, watched_[target.pid]);
}

void CBlockKeeper::see_to(const CBlockTarget& target, Watched& watched) {
  if (watched.look) {
    if (!watched.look->done()) return;
    Found found = watched.look->take();
    watched.look.reset();
    watched.next = Clock::now() + rest_after(found.took);
    if (!found.blocks.empty()) target.keep(std::move(found.blocks));
  } else if (Clock::now() >= watched.next) {
    begin_look(target, watched);
  }
}

void CBlockKeeper::begin_look(const CBlockTarget& target, Watched& watched) {
  watched.next = Clock::now() + kInterval;
  std::vector<CBlockPlace> blocks = target.blocks();
  if (blocks.empty()) return;
  auto look = Look<Found>::start(
      [pid = target.pid, memory = target.memory,
       blocks = std::move(blocks)](const std::stop_token& stop) mutable {
        const auto began = Clock::now();
        auto found = look_at_c_blocks(pid, *memory, std::move(blocks), stop);
        return Found{found.ok() ? *std::move(found) : CBlockLook(), Clock::now() - began};
      },
      [] {});
  if (look.ok()) watched.look = *std::move(look);
}

}  // namespace memprofd
