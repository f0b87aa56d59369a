// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/packed_decoder.h"

#include "daemon/ingest/decoder.h"

namespace memprofd {
namespace {

using Words = std::span<const std::uint32_t>;

std::optional<std::uint32_t> take(Words& words) {
  if (words.empty()) return std::nullopt;
  const std::uint32_t word = words.front();
  words = words.subspan(1);
  return word;
}

std::optional<std::uint64_t> take_wide(Words& words) {
  if (words.size() < 2) return std::nullopt;
  const std::uint64_t number = words[0] | std::uint64_t{words[1]} << 32;
  words = words.subspan(2);
  return number;
}

// Returns the address by reference, which is cheaper: this runs for each frame.
bool take_address(Words& words, std::uint64_t base, std::uint64_t& address) {
  if (words.empty()) return false;
  const std::uint32_t word = words.front();
  words = words.subspan(1);
  address = base + static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(word)});
  if (word != MEMPROF_PACKED_FAR) return true;
  const auto wide = take_wide(words);
  address = wide.value_or(0);
  return wide.has_value();
}

// Mixes one more number into a hash.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t number) {
  hash = (hash ^ number) * 0x9e3779b97f4a7c15ULL;
  return hash ^ hash >> 29;
}

}  // namespace

void PackedDecoder::begin(const memprof_packed_head& head, Words words) {
  head_ = head;
  words_ = words;
  last_sample_ = head.last_sample;
  tid_ = 0;
  depth_ = 0;
}

// Returns false if no record follows.
bool PackedDecoder::take_threads() {
  while (words_.size() >= 2 && (words_[1] & 7) == MEMPROF_PACKED_THREAD) {
    tid_ = words_[0];
    words_ = words_.subspan(2);
  }
  return words_.size() >= 2;
}

std::optional<memprof_record> PackedDecoder::next() {
  if (!take_threads()) return std::nullopt;
  const std::uint32_t time = words_[0], head = words_[1];
  words_ = words_.subspan(2);
  memprof_record record{};
  record.time_ns = head_.time_ns + std::uint64_t{time} * MEMPROF_PACKED_TIME_NS;
  const std::uint32_t kind = head & 7;
  if (is_alloc_kind(kind)) return alloc(head, record);
  if (kind < MEMPROF_PROMOTE || kind > MEMPROF_DEALLOC_MAJOR) return std::nullopt;
  return follow(head, record);
}

std::optional<memprof_record> PackedDecoder::follow(std::uint32_t head, memprof_record record) {
  record.origin = MEMPROF_ORIGIN(tid_, 0, head & 7);
  record.sample_id = last_sample_ - std::uint64_t{head >> 4} * head_.id_step;
  if ((head & MEMPROF_PACKED_WIDE) == 0) return record;
  const auto id = take_wide(words_);
  if (!id) return std::nullopt;
  record.sample_id = *id;
  return record;
}

std::optional<memprof_record> PackedDecoder::alloc(std::uint32_t head, memprof_record record) {
  record.origin = MEMPROF_ORIGIN(tid_, head >> 4 & 3, head & 7);
  if (!take_size((head & MEMPROF_PACKED_WIDE) != 0, record)) return std::nullopt;
  if (!take_callstack(head)) return std::nullopt;
  record.sample_id = last_sample_ += head_.id_step;
  return record;
}

bool PackedDecoder::take_size(bool wide, memprof_record& record) {
  const std::optional<std::uint64_t> size =
      wide ? take_wide(words_) : std::optional<std::uint64_t>(take(words_));
  const auto n_samples = take(words_);
  if (!size || !n_samples) return false;
  record.size_words = *size;
  record.n_samples = *n_samples;
  return true;
}

bool PackedDecoder::take_callstack(std::uint32_t head) {
  std::optional<std::uint32_t> shared = head >> 8 & MEMPROF_PACKED_MAX_COUNT;
  std::optional<std::uint32_t> added = head >> 17 & MEMPROF_PACKED_MAX_COUNT;
  if ((head & MEMPROF_PACKED_DEEP) != 0) {
    shared = take(words_);
    added = take(words_);
  }
  if (!shared || !added || !take_frames(*shared, *added)) return false;
  debuginfo_ = (head & MEMPROF_PACKED_DEBUGINFO) != 0;
  cut_ = (head & MEMPROF_PACKED_CUT) != 0;
  return true;
}

bool PackedDecoder::take_frames(std::uint32_t shared, std::uint32_t added) {
  if (shared > depth_ || added > MEMPROF_PACKED_MOST_FRAMES - shared) return false;
  if (frames_.size() < shared + added) {
    frames_.resize(shared + added);
    hashes_.resize(shared + added + 1);
  }
  depth_ = shared + added;
  // Local copies of the variables that the loop changes, because it runs for each frame.
  Words words = words_;
  const std::uint64_t base = head_.base_address;
  std::uint64_t* const frames = frames_.data();
  std::uint64_t* const hashes = hashes_.data();
  std::uint64_t hash = hashes[shared];
  for (std::uint32_t i = shared; i < shared + added; ++i) {
    std::uint64_t address = 0;
    if (!take_address(words, base, address) || (address & MEMPROF_RUN_MARK) != 0) return false;
    frames[i] = address;
    hashes[i + 1] = hash = mix(hash, address);
  }
  words_ = words;
  return true;
}

StackHash PackedDecoder::stack_hash() const {
  if (depth_ == 0) return StackHash();
  const std::uint64_t hash = mix(hashes_[depth_], (debuginfo_ ? 2u : 0u) | (cut_ ? 1u : 0u));
  return StackHash(hash != 0 ? hash : 1);
}

CallstackView PackedDecoder::callstack() {
  entries_.clear();
  std::uint32_t repeats = 0;
  for (std::uint32_t i = depth_; i-- > 0;) {
    // No run begins with the innermost frame if it is not a return address.
    const bool again =
        i + 1 < depth_ && frames_[i] == frames_[i + 1] && !(debuginfo_ && i + 2 == depth_);
    if (!again) {
      entries_.push_back(frames_[i]);
      repeats = 0;
    } else if (++repeats == 1) {
      entries_.push_back(MEMPROF_RUN_MARK | repeats);
    } else {
      entries_.back() = MEMPROF_RUN_MARK | repeats;
    }
  }
  return {.hash = stack_hash(),
          .entries = entries_,
          .alloc_idx = debuginfo_ ? kDebuginfoIsInnermost : -1,
          .n_frames = depth_,
          .truncated = cut_};
}

}  // namespace memprofd
