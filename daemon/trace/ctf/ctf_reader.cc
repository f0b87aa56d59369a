// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/trace/ctf/ctf_packet.h"
#include "daemon/trace/ctf/ctf_reader_domains.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "fmt/format.h"

namespace memprofd::ctf {

class Reader::Impl {
 public:
  explicit Impl(ByteSource source) : source_(std::move(source)) {}

  absl::Status open(const std::string& name);
  ReadSummary read(Visitor& visitor);
  const TraceInfo& info() const { return info_; }
  int version() const { return version_; }

 private:
  void read_packet(std::span<const std::byte> bytes);
  void skip_truncated(std::size_t bytes);
  void skip_damage();
  void skip_foreign(std::span<const std::byte> packet, const PacketHeader& header);
  bool follows_on(const PacketHeader& header);
  void take_packet(std::span<const std::byte> packet, const PacketHeader& header);
  void check_continuity(DomainState& domain, const PacketHeader& header);
  void take_location(DomainState& domain, const RawEvent& event);
  void take_alloc(DomainState& domain, const RawEvent& event, const PacketHeader& header);
  void take_block_event(const DomainState& domain, const RawEvent& event,
                        const PacketHeader& header);
  void explain(std::uint64_t code);

  ByteSource source_;
  TraceInfo info_;
  std::uint64_t header_pid_ = 0;
  int version_ = 0;
  DomainStates domains_{kMaxDomains};
  // True for codes with a complete meaning.
  absl::flat_hash_map<std::uint64_t, bool> codes_;
  Visitor* visitor_ = nullptr;
  ReadSummary summary_;
};

absl::Status Reader::Impl::open(const std::string& name) {
  const auto error = [&name](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{} is not a Memtrace trace: {}", name, what));
  };
  const std::span<const std::byte> bytes = source_.peek(kMaxPacketBytes);
  if (!source_.status().ok()) {
    return absl::Status(source_.status().code(),
                        fmt::format("{}: {}", name, std::string(source_.status().message())));
  }
  if (bytes.empty()) return error("it is empty");
  PacketHeader header;
  switch (get_header(bytes, header)) {
    case HeaderState::kGood:
      break;
    case HeaderState::kBad:
      return error("it does not start with a packet header");
    case HeaderState::kUnsupportedVersion:
      return error(fmt::format("version {} of the format is neither {} nor {}", header.version,
                               kVersionOneDomain, kVersionDomains));
  }
  if (header.size_bytes > bytes.size()) return error("it ends inside its first packet");
  const std::string what = get_info_packet(bytes.first(header.size_bytes), header, info_);
  if (!what.empty()) return error(what);
  version_ = header.version;
  header_pid_ = header.pid;
  source_.skip(header.size_bytes);
  return absl::OkStatus();
}

ReadSummary Reader::Impl::read(Visitor& visitor) {
  visitor_ = &visitor;
  summary_ = {};
  summary_.packets = 1;
  summary_.first_time_us = summary_.last_time_us = info_.start_time_us;
  visitor.on_info(info_);
  while (true) {
    const std::span<const std::byte> bytes = source_.peek(kMaxPacketBytes);
    if (bytes.empty()) break;
    read_packet(bytes.first(std::min(bytes.size(), kMaxPacketBytes)));
  }
  summary_.bytes = source_.offset();
  summary_.read_error = source_.status();
  return summary_;
}

// bytes: at least a whole packet, or the rest of the file.
void Reader::Impl::read_packet(std::span<const std::byte> bytes) {
  PacketHeader header;
  const HeaderState state = get_header(bytes, header);
  const bool magic_fits =
      std::memcmp(bytes.data(), &kMagic, std::min(bytes.size(), sizeof kMagic)) == 0;
  if (magic_fits && bytes.size() < header_bytes(version_)) return skip_truncated(bytes.size());
  if (state != HeaderState::kGood || header.version != version_) return skip_damage();
  if (header.size_bytes > bytes.size()) return skip_damage();
  const std::span<const std::byte> packet = bytes.first(header.size_bytes);
  if (!is_well_formed(packet, header)) return skip_damage();
  if (header.pid != info_.pid && header.pid != header_pid_) {
    skip_foreign(packet, header);
  } else {
    take_packet(packet, header);
  }
  source_.skip(packet.size());
}

void Reader::Impl::skip_truncated(std::size_t bytes) {
  ++summary_.packets_truncated;
  summary_.bytes_lost += bytes;
  source_.skip(bytes);
}

// Skips to the next header. If there is none and the packet extends beyond the end of the file, the
// file is truncated rather than damaged.
void Reader::Impl::skip_damage() {
  PacketHeader header;
  std::span<const std::byte> bytes = source_.peek(kMaxPacketBytes);
  const bool may_be_truncated = get_header(bytes, header) == HeaderState::kGood &&
                                header.version == version_ && header.size_bytes > bytes.size();
  const std::uint64_t start = source_.offset();
  bool found = false;
  std::size_t step = 1;
  while (!found) {
    source_.skip(std::min(step, bytes.size()));
    bytes = source_.peek(kMaxPacketBytes);
    if (bytes.empty()) break;
    const auto magic =
        std::search(bytes.begin(), bytes.end(), reinterpret_cast<const std::byte*>(&kMagic),
                    reinterpret_cast<const std::byte*>(&kMagic) + sizeof kMagic);
    const auto distance = static_cast<std::size_t>(magic - bytes.begin());
    if (magic == bytes.end()) {
      // The last bytes may be the beginning of a magic number.
      step = std::max<std::size_t>(bytes.size(), sizeof kMagic) - (sizeof kMagic - 1);
    } else if (distance > 0) {
      step = distance;
    } else {
      found = get_header(bytes, header) == HeaderState::kGood && header.version == version_;
      step = 1;
    }
  }
  ++(may_be_truncated && !found ? summary_.packets_truncated : summary_.packets_damaged);
  summary_.bytes_lost += source_.offset() - start;
  domains_.forget_all();
}

// A child that was forked from the program may have written into the file. If the packet is where
// one of ours is expected, its pid may be damaged instead.
void Reader::Impl::skip_foreign(std::span<const std::byte> packet, const PacketHeader& header) {
  ++summary_.packets_foreign;
  summary_.bytes_lost += packet.size();
  if (follows_on(header)) domains_.forget_all();
}

bool Reader::Impl::follows_on(const PacketHeader& header) {
  const DomainState* domain = domains_.find(header.domain);
  return header.first_alloc_id == (domain == nullptr ? 0 : domain->next_alloc_id);
}

void Reader::Impl::take_packet(std::span<const std::byte> packet, const PacketHeader& header) {
  DomainState& domain = domains_.get(header.domain);
  check_continuity(domain, header);
  if (!domain.callstacks.check(header.verifier)) {
    ++summary_.cache_disagreements;
    // The packet's domain itself may be damaged.
    if (version_ >= kVersionDomains) domains_.forget_all();
  }
  if (header.verifier.code != 0) explain(header.verifier.code);
  domain.last_time_us = std::max(domain.last_time_us, header.first_time_us);
  ByteReader in(packet.subspan(header_bytes(header.version)));
  while (!in.empty()) {
    const RawEvent event = get_event(in, header);
    domain.last_time_us = event.time_us;
    if (event.id == EventId::kLocation) {
      take_location(domain, event);
    } else if (event.id == EventId::kAlloc) {
      take_alloc(domain, event, header);
    } else {
      take_block_event(domain, event, header);
    }
  }
  ++summary_.packets;
  summary_.last_time_us = std::max(summary_.last_time_us, domain.last_time_us);
}

// In version 3 ids jump when a domain gets new ones, so only a step backwards reveals an error.
void Reader::Impl::check_continuity(DomainState& domain, const PacketHeader& header) {
  if (header.first_time_us < domain.last_time_us) ++summary_.packets_early;
  const bool jumps = header.first_alloc_id > domain.next_alloc_id;
  const bool goes_back = header.first_alloc_id < domain.next_alloc_id;
  if (jumps && version_ == kVersionOneDomain) {
    summary_.allocs_missing += header.first_alloc_id - domain.next_alloc_id;
  }
  if (goes_back || (jumps && version_ == kVersionOneDomain)) domains_.forget_all();
  domain.next_alloc_id = header.first_alloc_id;
}

void Reader::Impl::take_location(DomainState& domain, const RawEvent& event) {
  const LocationDecoder::Decoded decoded = domain.locations.get(event.body);
  ++summary_.locations;
  if (!decoded.complete) ++summary_.locations_partial;
  const auto [known, is_new] = codes_.try_emplace(decoded.code, decoded.complete);
  if (!is_new && known->second) return;
  known->second = decoded.complete;
  visitor_->on_location(decoded.code, decoded.locations);
}

void Reader::Impl::explain(std::uint64_t code) {
  if (!codes_.try_emplace(code, false).second) return;
  // A packet of locations is missing.
  domains_.forget_names();
  ++summary_.codes_unexplained;
  visitor_->on_location(code, std::vector<Location>{unknown_location()});
}

void Reader::Impl::take_alloc(DomainState& domain, const RawEvent& event,
                              const PacketHeader& header) {
  const CallstackDecoder::Result result =
      domain.callstacks.get(event.body, event.n_codewords, event.common_prefix,
                            [this](std::uint64_t code) { explain(code); });
  Alloc alloc{.time_us = event.time_us,
              .id = domain.next_alloc_id++,
              .domain = header.domain,
              .length_words = event.length_words,
              .n_samples = event.n_samples,
              .source = event.source};
  if (result != CallstackDecoder::Result::kLost) alloc.callstack = domain.callstacks.callstack();
  if (result == CallstackDecoder::Result::kLost) ++summary_.callstacks_lost;
  if (result == CallstackDecoder::Result::kCut) ++summary_.callstacks_cut;
  ++summary_.allocs;
  visitor_->on_alloc(alloc);
}

void Reader::Impl::take_block_event(const DomainState& domain, const RawEvent& event,
                                    const PacketHeader& header) {
  const BlockEvent block{
      .time_us = event.time_us,
      .id = domain.next_alloc_id - 1 - static_cast<std::uint64_t>(event.id_delta),
      .domain = header.domain};
  if (event.id == EventId::kPromote) {
    ++summary_.promotes;
    visitor_->on_promote(Promote{block});
  } else {
    ++summary_.collects;
    visitor_->on_collect(Collect{block});
  }
}

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

absl::StatusOr<Reader> Reader::open(ByteSource source, const std::string& name) {
  auto impl = std::make_unique<Impl>(std::move(source));
  RETURN_IF_ERROR(impl->open(name));
  return Reader(std::move(impl));
}

absl::StatusOr<Reader> Reader::open(std::span<const std::byte> bytes) {
  return open(ByteSource(bytes), "this");
}

absl::StatusOr<Reader> Reader::open(const std::string& path) {
  const bool is_stdin = path == "-";
  UniqueFd fd(is_stdin ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return open(ByteSource(std::move(fd)), is_stdin ? "the standard input" : path);
}

const TraceInfo& Reader::info() const { return impl_->info(); }
int Reader::version() const { return impl_->version(); }
ReadSummary Reader::read(Visitor& visitor) { return impl_->read(visitor); }

// --------------------------------------------------------------------- summary

// Packets of other processes, and events that the writer itself omitted, are not losses.
bool ReadSummary::complete() const {
  return packets_truncated + packets_damaged + allocs_missing + callstacks_lost +
                 codes_unexplained + locations_partial + cache_disagreements + packets_early ==
             0 &&
         read_error.ok();
}

std::string ReadSummary::losses() const {
  std::string text;
  const auto add = [&text](std::uint64_t count, std::string_view one, std::string_view many) {
    if (count == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_count(count),
                        count == 1 ? one : many);
  };
  add(packets_truncated, "truncated packet", "truncated packets");
  add(packets_damaged, "damaged stretch", "damaged stretches");
  add(packets_foreign, "packet of another process", "packets of other processes");
  if (bytes_lost > 0) {
    text += fmt::format(" ({} of {})", format_bytes(static_cast<double>(bytes_lost)),
                        format_bytes(static_cast<double>(bytes)));
  }
  add(allocs_missing, "missing sample", "missing samples");
  add(callstacks_lost, "unknown callstack", "unknown callstacks");
  add(codes_unexplained, "address without location", "addresses without location");
  add(locations_partial, "location with lost names", "locations with lost names");
  add(cache_disagreements, "packet that does not continue those before",
      "packets that do not continue those before");
  add(packets_early, "packet out of order", "packets out of order");
  if (!read_error.ok()) {
    text += fmt::format("{}the rest of the file cannot be read: {}", text.empty() ? "" : ", ",
                        std::string(read_error.message()));
  }
  return text;
}

}  // namespace memprofd::ctf
