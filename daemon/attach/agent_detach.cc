// SPDX-License-Identifier: Apache-2.0
// AgentAttachment: detaches. Stops the agent, removes the probes, and then lets another memprofd
// take the target.
#include <utility>
#include <vector>

#include "daemon/attach/agent_attachment.h"
#include "daemon/attach/inject/agent_owner.h"

namespace memprofd {

AgentAttachment::~AgentAttachment() { detach(); }

void AgentAttachment::request_stop() {
  if (!claimed_) return;  // no lock, or another memprofd's
  ++session_.generation;
  session_.rate = 0;
  (void)control_->give({.session = session_});
  if (native_heap_) (void)native_heap_->request(0, native_generation_);
}

bool AgentAttachment::stopped() const {
  if (!control_) return true;
  const auto status = control_->status();
  if (status.ok() && status->state == MEMPROF_AGENT_SAMPLING) return false;
  if (!native_heap_) return true;
  const auto native_heap = native_heap_->status();
  if (!native_heap.ok() || native_heap->hands_off != 0) return true;
  return native_heap->slots == 0 && native_heap->state != MEMPROF_NATIVE_HEAP_FOLLOWING;
}

void AgentAttachment::begin_detach() {
  give_up_copy();
  (void)injector_gone();
  kernel_->probes().begin_detach();
}

// Returns no address while the agent's location is unknown; an agent with the batch probe may still
// be loaded.
std::vector<std::uint64_t> AgentAttachment::probe_addresses() const {
  if (!control_) return {};
  std::vector<std::uint64_t> addresses{agent_.probe_address};
  for (const ProbePoint& point : {target_.capture, target_.register_frametable}) {
    if (point.address != 0) addresses.push_back(point.address);
  }
  for (const std::uint64_t offset : {agent_.native_alloc_offset, agent_.native_free_offset}) {
    if (offset != 0) addresses.push_back(agent_.probe_address - agent_.probe_offset + offset);
  }
  return addresses;
}

bool AgentAttachment::detached() {
  return !injector_ && !copying() && removal_.done() &&
         kernel_->probes().detached(target_.memory->quick(), probe_addresses());
}

void AgentAttachment::detach() {
  wait_for_copy();
  if (injector_) injector_->wait();
  (void)injector_gone();
  request_stop();
  if (kernel_) kernel_->probes().detach();
  kernel_capture_.reset();
  if (std::exchange(claimed_, false)) release_agent(*control_);
  lock_.release();
}

}  // namespace memprofd
