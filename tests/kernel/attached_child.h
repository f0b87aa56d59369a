// SPDX-License-Identifier: Apache-2.0
// A child process that is attached to, and a pipeline that its events go through: memprofd without
// the daemon around. For fixtures to inherit.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "daemon/attach/agent_attachment.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/util/status_macros.h"
#include "tests/kernel/child_process.h"

namespace memprofd {

class AttachedChild {
 protected:
  // The child runs; from here on it is sampled. The observer outlives this.
  absl::Status attach(const AttachOptions& options, double rate, SampleObserver* observer) {
    ASSIGN_OR_RETURN(Target target, discover_target(child_->pid()));
    ASSIGN_OR_RETURN(auto plan, plan_agent(target, options));
    ASSIGN_OR_RETURN(TargetLock lock, TargetLock::acquire(target.pid, target.start_time_ticks));
    ASSIGN_OR_RETURN(attachment_, AgentAttachment::prepare(std::move(target), std::move(lock),
                                                           std::move(plan), options));
    ring_ = attachment_->kernel().take_ring();
    PipelineLimits limits;
    limits.pairing.as_one_thread = attachment_->target().abi.one_postponed_queue;
    limits.pairing.in_order = attachment_->target().abi.domains;
    limits.native_heap_rate = attachment_->native_heap().rate();
    pipeline_.emplace(limits);
    pipeline_->set_observer(observer);
    pipeline_->begin_session(attachment_->next_generation(), rate);
    return attachment_->begin(rate, capture_of(options.capture));
  }

  void consume() {
    while (ring_->consume([this](std::span<const std::byte> record) {
      pipeline_->on_ring_record(record);
    }) > 0) {
    }
  }

  std::unique_ptr<ChildProcess> child_;
  std::unique_ptr<AgentAttachment> attachment_;
  std::unique_ptr<EventRing> ring_;
  std::optional<Pipeline> pipeline_;
};

}  // namespace memprofd
