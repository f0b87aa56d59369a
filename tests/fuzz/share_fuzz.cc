// SPDX-License-Identifier: Apache-2.0
// Memory that an agent shares with its reader: positions, events and unfinished batches. Input: the
// head's positions, the ring's words, then the control block and the first buffer.
#include <algorithm>
#include <array>
#include <vector>

#include "daemon/run/shared_agent.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/packed_batch.h"
#include "tests/kit/sharing_agent.h"

namespace memprofd::fuzz {
namespace {

constexpr std::uint64_t kRing = 4096;

void copy(std::string_view bytes, void* to, std::size_t most) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), std::min(bytes.size(), most));
}

bool read(std::string_view bytes) {
  SharedAgent reader = SharedAgent::create({.rate = 0.01, .ring_bytes = kRing}).value();
  testing::SharingAgent agent(reader.descriptor(), kRing);
  Pipeline pipeline;
  pipeline.begin_session(1, 0.01);
  agent.take(1, "a");
  Input input(bytes);
  const auto positions = input.take<std::array<std::uint64_t, 4>>();
  copy(input.take_bytes(kRing), agent.ring().data(), kRing);
  if (const auto control = input.take_bytes(sizeof(memprof_agent_control)); !control.empty()) {
    copy(control, &agent.control(), sizeof(memprof_agent_control));
  }
  copy(input.rest(), &agent.buffer(0), sizeof(memprof_batch_buffer));
  // The data grows while it is read, or not.
  for (const std::uint64_t written : positions) {
    agent.head().written = written;
    reader.drain(pipeline);
    reader.catch_up(pipeline);
    (void)reader.status();
    (void)reader.taker();
    require(reader.damaged() || agent.head().read == written, "all that is written is read");
  }
  pipeline.end();
  return !reader.damaged() && pipeline.alloc_events() > 0;
}

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (const int batches : {1, 5}) {
    SharedAgent reader = SharedAgent::create({.rate = 0.01, .ring_bytes = kRing}).value();
    testing::SharingAgent agent(reader.descriptor(), kRing);
    agent.take(1, "a");
    for (int i = 0; i < batches; ++i) {
      PackedBatch packed(1000, static_cast<std::uint64_t>(i) * 2);
      packed.alloc(1, 1, 0, {PackedBatch::kBase + 0x100}).alloc(2, 1, 1, {});
      agent.put(packed.event(static_cast<std::uint64_t>(i) * 2, 1).bytes());
    }
    std::string seed;
    for (int i = 0; i < 4; ++i) put(seed, agent.head().written);
    seed.append(reinterpret_cast<const char*>(agent.ring().data()), kRing);
    seed.append(reinterpret_cast<const char*>(&agent.control()), sizeof(memprof_agent_control));
    seeds.push_back(seed);
  }
  return seeds;
}

const Add added("share", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
