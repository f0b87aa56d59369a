// SPDX-License-Identifier: Apache-2.0
// State files of targets, and reports of their contents. Input: records, whose checksums are
// inserted.
#include <zlib.h>

#include "daemon/query/range_counter.h"
#include "daemon/state/record_log.h"
#include "daemon/state/target_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/stored_target.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::fuzz {
namespace {

constexpr std::size_t kLogHeadBytes = 12;
constexpr std::size_t kRecordHeadBytes = 8;

void put_record_checksums(std::string& bytes) {
  std::size_t at = kLogHeadBytes;
  while (at + kRecordHeadBytes <= bytes.size()) {
    std::uint32_t size = 0;
    std::memcpy(&size, &bytes[at], sizeof size);
    if (size > bytes.size() - at - kRecordHeadBytes) break;
    const auto* head = reinterpret_cast<const Bytef*>(&bytes[at]);
    uLong sum = ::crc32(0, head, sizeof size);
    sum = ::crc32(sum, head + kRecordHeadBytes, size);
    const auto stored = static_cast<std::uint32_t>(sum);
    std::memcpy(&bytes[at + sizeof size], &stored, sizeof stored);
    at += kRecordHeadBytes + size;
  }
}

void ask(const ProfileSnapshot& target) {
  for (const ProfileRow& row : target.rows) {
    require(row.callstack != nullptr, "a row without a callstack");
    require(target.symbolizer != nullptr, "no names");
    for (const std::uint64_t address : row.callstack->expand(20)) {
      require(!target.symbolizer->locations(address, 0).empty(), "an address without a name");
    }
  }
  const RangeCounter counter(target);
  for (const auto& tier : target.history.tiers) {
    for (const HistoryWindowPtr& window : tier) {
      require(window->begin_ns() <= window->end_ns(), "a window that ends before it begins");
      counter.flows(window->begin_ns(), window->end_ns());
      counter.live_at(window->end_ns());
    }
  }
}

bool read(std::string_view records) {
  std::string bytes(records);
  put_record_checksums(bytes);
  static const TempDir dir;
  const auto stored = read_target(dir.write("target", bytes));
  if (!stored.ok()) return false;
  require(stored->snapshot != nullptr, "no snapshot");
  ask(*stored->snapshot);
  return true;
}

std::vector<std::string> seeds() {
  const TempDir dir;
  const std::string path = dir.path("42.target");
  Recording recording;
  recording.symbolizer = some_names();
  RandomProgram program(recording);
  TargetWriter writer(path);
  std::vector<std::string> files;
  for (int second = 0; second < 24; ++second) {
    program.run_second();
    if (second % 4 != 3) continue;
    ProfileSnapshot snapshot = recording.snapshot();
    snapshot.info.pid = 42;
    require(writer.write(snapshot, kRoom).ok(), "a target cannot be written");
    files.push_back(read_file(path));
  }
  return files;
}

const Add added("state", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
