// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/run_live.h"

#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/top/top_render.h"

namespace memprofd::ctl {
namespace {

constexpr std::uint32_t kLiveRows = 10;

}  // namespace

LiveFrames::LiveFrames(RunTarget& run) : run_(run), questions_(ask_source(run)) {
  view_.limit = kLiveRows;
  view_.filter.set_frames(pb::FRAMES_APPLICATION);
}

void LiveFrames::update() {
  const auto now = std::chrono::steady_clock::now();
  if (!run_.begun() || now < next_) return;
  next_ = now + kPace;
  run_.refresh();
  view_.pid = run_.pid();
  const TopAnswer answer = ask_top(*questions_, view_);
  // Without an answer there is no frame; the next second has one.
  if (answer.status.ok()) {
    std::fputs(absl::StrCat(top_text(answer, charset_), "\n").c_str(), stderr);
  }
}

}  // namespace memprofd::ctl
