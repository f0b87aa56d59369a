// SPDX-License-Identifier: Apache-2.0
// Traces: the reader's output is consistent, its summary agrees, and it can be written and read
// again.
#include <filesystem>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "daemon/trace/ctf/ctf_dump.h"
#include "daemon/trace/ctf/ctf_reader.h"
#include "daemon/trace/ctf/ctf_writer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/ctf_trace.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::ctf {
namespace {

using fuzz::require;

// A short input can stand for very many frames; this many are enough.
constexpr std::uint64_t kMaxFramesWritten = 200'000;

// Checks its input and writes it again with new ids.
class Checker : public Visitor {
 public:
  explicit Checker(int version) : version_(version) {}

  void on_info(const TraceInfo& info) override {
    writer_.emplace(
        [this](std::span<const std::byte> packet) {
          require(packet.size() <= kMaxPacketBytes, "a packet is too large");
          written_.insert(written_.end(), packet.begin(), packet.end());
          return absl::OkStatus();
        },
        [this](std::uint64_t code) { return locations_[code]; }, info,
        WriterOptions{.version = version_});
  }
  void on_location(std::uint64_t code, std::span<const Location> locations) override {
    require(locations.size() <= kMaxInlined, "too many inlined locations");
    // Only the first meaning may have been written.
    locations_.try_emplace(code, locations.begin(), locations.end());
  }
  void on_alloc(const Alloc& event) override {
    ++events_;
    bool writable = true;
    for (const std::uint64_t code : event.callstack) {
      require(locations_.contains(code), "a code without location");
      if (code > kMaxCode) writable = false;
    }
    frames_ += event.callstack.size();
    if (!writable || frames_ > kMaxFramesWritten) return;
    const absl::StatusOr<std::uint64_t> id = writer_->alloc(event);
    require(id.ok(), "an allocation that was read cannot be written");
    ids_[event.id] = *id;
    ++written_events_;
  }
  void on_promote(const Promote& event) override { put(event, &Writer::promote); }
  void on_collect(const Collect& event) override { put(event, &Writer::collect); }

  void check(const ReadSummary& summary, std::size_t size) {
    require(summary.bytes == size, "not all bytes are accounted for");
    require(summary.bytes_lost <= size, "more was lost than there was");
    require(summary.events() == events_, "the number of events is wrong");
    require(summary.complete() || !summary.losses().empty(), "a loss that is not told");
    require(writer_->flush().ok(), "flush failed");
    Visitor nobody;
    absl::StatusOr<Reader> reader = Reader::open(std::span<const std::byte>(written_));
    require(reader.ok(), "what was written is no trace");
    const ReadSummary again = reader->read(nobody);
    require(again.complete(), "what was written has losses");
    require(again.events() == written_events_, "what was written is not all there");
  }

 private:
  void put(const BlockEvent& event, absl::Status (Writer::*put_event)(const BlockEvent&)) {
    ++events_;
    const auto id = ids_.find(event.id);
    if (id == ids_.end()) return;
    BlockEvent renamed = event;
    renamed.id = id->second;
    require(((*writer_).*put_event)(renamed).ok(), "an event that was read cannot be written");
    ++written_events_;
  }

  int version_;
  std::optional<Writer> writer_;
  std::vector<std::byte> written_;
  absl::flat_hash_map<std::uint64_t, std::vector<Location>> locations_;
  absl::flat_hash_map<std::uint64_t, std::uint64_t> ids_;
  std::uint64_t events_ = 0;
  std::uint64_t written_events_ = 0;
  std::uint64_t frames_ = 0;
};

bool read(std::string_view bytes) {
  absl::StatusOr<Reader> reader = Reader::open(std::as_bytes(std::span(bytes)));
  if (!reader.ok()) return false;
  Checker checker(reader->version());
  const ReadSummary summary = reader->read(checker);
  checker.check(summary, bytes.size());
  return summary.complete();
}

std::vector<std::string> seeds() {
  std::vector<std::string> traces;
  for (unsigned i = 0; i < 6; ++i) {
    const auto file = testing::write_workload(i, 150, i % 2 == 0 ? 2 : 3,
                                              static_cast<std::uint16_t>(1 + i % 3), 20);
    traces.emplace_back(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  }
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden")) {
    if (entry.path().extension() != ".ctf") continue;
    traces.push_back(read_file(entry.path()));
  }
  return traces;
}

const fuzz::Add added("ctf", {&read, &seeds});

}  // namespace
}  // namespace memprofd::ctf
