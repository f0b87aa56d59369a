// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_reader_domains.h"

#include <algorithm>

namespace memprofd::ctf {

DomainState& DomainStates::get(std::uint16_t domain) {
  std::unique_ptr<DomainState>* state = nullptr;
  if (const auto found = states_.find(domain); found != states_.end()) {
    state = &found->second;
  } else {
    if (states_.size() >= max_domains_) make_room();
    state = &states_[domain];
    *state = std::make_unique<DomainState>();
    if (lost_packets_ || dropped_.contains(domain)) (*state)->callstacks.forget();
    if (lost_names_ || dropped_.contains(domain)) (*state)->locations.forget();
  }
  (*state)->last_packet = ++packets_;
  return **state;
}

DomainState* DomainStates::find(std::uint16_t domain) {
  const auto found = states_.find(domain);
  return found == states_.end() ? nullptr : found->second.get();
}

void DomainStates::make_room() {
  const auto oldest = std::min_element(
      states_.begin(), states_.end(),
      [](const auto& a, const auto& b) { return a.second->last_packet < b.second->last_packet; });
  dropped_.insert(oldest->first);
  states_.erase(oldest);
}

void DomainStates::forget_all() {
  lost_packets_ = true;
  for (auto& [id, state] : states_) state->callstacks.forget();
  forget_names();
}

void DomainStates::forget_names() {
  lost_names_ = true;
  for (auto& [id, state] : states_) state->locations.forget();
}

}  // namespace memprofd::ctf
