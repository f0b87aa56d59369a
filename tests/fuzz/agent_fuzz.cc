// SPDX-License-Identifier: Apache-2.0
// An agent's control block and buffers, the dynamic linker's list of files, and a runtime's
// counters in a program's memory. Input: the address of each, then the memory.
#include "daemon/attach/inject/agent_control.h"
#include "daemon/attach/inject/loaded_files.h"
#include "daemon/discover/gc_stats.h"
#include "tests/fuzz/fuzz_memory.h"
#include "tests/kit/fake_memory.h"

namespace memprofd::fuzz {
namespace {

struct Places {
  std::uint64_t control, list, state;
};

// Drops writes; nothing reads them back.
class Written : public WritableMemory {
 public:
  explicit Written(const FuzzMemory& memory) : memory_(memory) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    return memory_.read(address, out);
  }
  absl::Status write(std::uint64_t, std::span<const std::byte>) const override {
    return absl::OkStatus();
  }

 private:
  const FuzzMemory& memory_;
};

bool read_agent(const Written& memory, const Places& places) {
  const AgentControl control(42, memory, places.control);
  const auto status = control.status();
  if (!status.ok()) return false;
  const auto tails = control.tails();
  if (tails.ok()) require(tails->size() <= MEMPROF_BUFFERS, "too many buffers");
  const auto domains = control.domains(*status);
  require(domains.size() <= MEMPROF_DOMAINS, "too many domains");
  const RuntimeAbi abi = runtime_abi_for("5.3.0").value();
  (void)read_domain_gc_stats(memory, abi, {places.state, places.state + 8, 0}, domains,
                             status->ended_words);
  return true;
}

// Searches as in a stopped program: finds the file's control block by name.
void find_agent(const Written& memory, std::uint64_t entry) {
  AgentStatusQuery look;
  const auto at = load_bias_after(
      memory, entry, "libmemprof_agent.so",
      [&](std::uint64_t bias, MemoryQuestion& question) { look.add_to(question, bias + 0x100); });
  if (!at) return;
  require(at->answers <= AgentStatusQuery::kPieces, "more answers than questions");
  const auto status = look.status(42, at->answers);
  if (status.ok()) require(status->domains_used <= MEMPROF_DOMAINS, "too many domains");
}

bool read(std::string_view bytes) {
  Input input(bytes);
  const auto places = input.take<Places>();
  const FuzzMemory spans(input);
  const Written memory(spans);
  if (const auto last = last_loaded(memory, places.list)) find_agent(memory, *last);
  find_agent(memory, places.list + 8);
  const auto stats = read_gc_stats(memory, places.state, runtime_abi_for("4.13.1").value());
  if (stats.ok()) require(stats->minor_words >= 0, "less than no words");
  return read_agent(memory, places);
}

// ------------------------------------------------------------ seeds

std::uint64_t put_buffers(FakeMemory& memory) {
  const std::uint64_t at = memory.end();
  for (std::uint32_t i = 0; i < 2; ++i) {
    memprof_batch_buffer buffer{};
    buffer.count = 1 + i;
    buffer.words = 6;
    buffer.format = i == 0 ? MEMPROF_BATCH_PACKED : 0;
    memory.put(buffer);
  }
  return at;
}

std::vector<std::string> seeds() {
  FakeMemory memory(0x10000);
  Places places{};
  memprof_agent_control control{};
  control.magic = MEMPROF_AGENT_MAGIC;
  control.abi_version = MEMPROF_AGENT_ABI;
  control.control_bytes = sizeof control;
  control.buffer_bytes = sizeof(memprof_batch_buffer);
  control.buffer_count = MEMPROF_BUFFERS;
  control.domain_bytes = sizeof(memprof_domain);
  control.domain_count = MEMPROF_DOMAINS;
  control.buffers_used = 2;
  control.domains_used = 1;
  control.buffers = put_buffers(memory);
  places.state = memory.end();
  for (int i = 0; i < 128; ++i) memory.put(std::uint64_t{0});
  control.domains = memory.end();
  memory.put(memprof_domain{.state = places.state});
  places.control = memory.put(control);
  const std::uint64_t name = memory.put_string("libmemprof_agent.so");
  memory.align(8);
  places.list = memory.end();
  memory.put(std::uint64_t{1});
  memory.put(memory.end() + 8);
  for (const bool is_last : {false, true}) {
    for (const std::uint64_t word : {std::uint64_t{0x400000}, name, std::uint64_t{0}}) {
      memory.put(word);
    }
    memory.put(is_last ? 0 : memory.end() + 8);
  }
  std::string bytes;
  put(bytes, places);
  put_region(bytes, memory);
  return {bytes};
}

const Add added("agent", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
