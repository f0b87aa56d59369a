// SPDX-License-Identifier: Apache-2.0
// State of a reader for each domain, from packet to packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "daemon/trace/ctf/ctf_callstack_decoder.h"
#include "daemon/trace/ctf/ctf_locations.h"

namespace memprofd::ctf {

struct DomainState {
  CallstackDecoder callstacks;
  LocationDecoder locations;
  std::uint64_t next_alloc_id = 0;
  std::uint64_t last_time_us = 0;
  std::uint64_t last_packet = 0;  // the least recently used domain makes room
};

class DomainStates {
 public:
  explicit DomainStates(std::size_t max_domains) : max_domains_(max_domains) {}

  // Returns the state of a domain; it is empty if the domain had to make room before.
  DomainState& get(std::uint16_t domain);
  // Null when the domain has none.
  DomainState* find(std::uint16_t domain);
  // Call this when a packet of any domain may have been lost.
  void forget_all();
  void forget_names();

 private:
  void make_room();

  std::size_t max_domains_;
  std::map<std::uint16_t, std::unique_ptr<DomainState>> states_;
  std::set<std::uint16_t> dropped_;
  std::uint64_t packets_ = 0;
  bool lost_packets_ = false;
  bool lost_names_ = false;
};

}  // namespace memprofd::ctf
