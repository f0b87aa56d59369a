// SPDX-License-Identifier: Apache-2.0
// OCaml stacks made by hand, their memory and their frame table, and the
// plainest possible walk over them to compare with.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "bpf/events.h"

namespace memprofd {

struct SyntheticFrame {
  std::uint64_t pc;    // return address inside the frame's function
  std::uint16_t size;  // raw frame_size; at least 8 and a multiple of 8 after masking
};
// Frames of one chunk, innermost first. Chunks are separated by C frames.
using SyntheticChunk = std::vector<SyntheticFrame>;

// A program: return address -> raw frame size.
class SyntheticProgram {
 public:
  static constexpr std::uint64_t kStub = 0x555500000010;  // return into caml_start_program

  SyntheticProgram() { sizes_[kStub] = 0xFFFF; }

  void add(std::uint64_t pc, std::uint16_t size) { sizes_[pc] = size; }
  void add(const std::vector<SyntheticChunk>& chunks) {
    for (const auto& chunk : chunks)
      for (const auto& frame : chunk) add(frame.pc, frame.size);
  }
  const std::map<std::uint64_t, std::uint16_t>& sizes() const { return sizes_; }

  // The table of bpf/events.h; empty when MEMPROF_MAX_PROBES does not suffice.
  std::vector<std::uint64_t> slots(std::uint32_t bits) const {
    std::vector<std::uint64_t> slots(std::size_t{1} << bits);
    for (const auto& [pc, size] : sizes_) {
      std::uint32_t i = 0;
      const auto at = [&] { return (memprof_slot_home(pc, bits) + i) & (slots.size() - 1); };
      while (slots[at()] != 0 && i < MEMPROF_MAX_PROBES) ++i;
      if (i == MEMPROF_MAX_PROBES) return {};
      slots[at()] = MEMPROF_SLOT(pc, size);
    }
    return slots;
  }

 private:
  std::map<std::uint64_t, std::uint16_t> sizes_;
};

// One stack in memory. Words lie from base upwards; the innermost frame first.
class SyntheticStack {
 public:
  // c_words: words of C frames between chunks. tail_words: readable words above
  // the outermost callback link.
  SyntheticStack(const std::vector<SyntheticChunk>& chunks, std::uint64_t base,
                 std::size_t c_words = 20, std::size_t tail_words = 100)
      : base_(base) {
    std::size_t link = 0;  // index of the callback link that points to the chunk
    for (const auto& chunk : chunks) {
      set_link(link, base_ + words_.size() * 8,
               chunk.empty() ? SyntheticProgram::kStub : chunk[0].pc);
      for (std::size_t i = 0; i < chunk.size(); ++i) {
        words_.resize(words_.size() + (chunk[i].size & 0xFFFC) / 8, kGarbage);
        words_.back() = i + 1 < chunk.size() ? chunk[i + 1].pc : SyntheticProgram::kStub;
      }
      link = words_.size() + 2;
      words_.resize(link + 3 + c_words, kGarbage);
    }
    if (!chunks.empty()) set_link(link, 0, 0);
    words_.resize(chunks.empty() ? tail_words : link + 2 + tail_words, kGarbage);
  }

  std::uint64_t base() const { return base_; }
  std::uint64_t sp() const { return sp_; }  // bottom_of_stack
  std::uint64_t pc() const { return pc_; }  // last_return_address
  std::vector<std::uint64_t>& words() { return words_; }
  const std::vector<std::uint64_t>& words() const { return words_; }

  // Byte-exact, like the kernel's read of user memory.
  bool read(void* to, std::size_t bytes, std::uint64_t address) const {
    const std::uint64_t size = words_.size() * 8;
    if (address < base_ || address - base_ > size || size - (address - base_) < bytes) return false;
    std::memcpy(to, reinterpret_cast<const char*>(words_.data()) + (address - base_), bytes);
    return true;
  }

 private:
  static constexpr std::uint64_t kGarbage = 0x7ffe'dead'beef'0000;

  void set_link(std::size_t index, std::uint64_t sp, std::uint64_t pc) {
    if (index == 0) {
      sp_ = sp;
      pc_ = pc;
      return;
    }
    words_[index] = sp;
    words_[index + 1] = pc;
  }

  std::uint64_t base_;
  std::uint64_t sp_ = 0;
  std::uint64_t pc_ = 0;
  std::vector<std::uint64_t> words_;
};

struct ReferenceWalk {
  std::vector<std::uint64_t> frames;
  std::uint32_t flags = 0;  // MEMPROF_CAPTURE_*
};

// One read a frame, a map for a table, no coding. Stacks with cycles need a cap.
inline ReferenceWalk reference_walk(const SyntheticProgram& program, const SyntheticStack& stack,
                                    std::uint32_t max_frames) {
  ReferenceWalk result;
  std::uint64_t sp = stack.sp(), pc = stack.pc();
  while (sp != 0) {
    const auto found = program.sizes().find(pc);
    if (found == program.sizes().end()) {
      result.flags = MEMPROF_CAPTURE_BROKEN;
      break;
    }
    if (found->second == 0xFFFF) {
      std::array<std::uint64_t, 2> link;
      if (!stack.read(link.data(), sizeof(link), sp + 16)) {
        result.flags = MEMPROF_CAPTURE_BROKEN;
        break;
      }
      sp = link[0];
      pc = link[1];
      continue;
    }
    if (result.frames.size() == max_frames) {
      result.flags = MEMPROF_CAPTURE_TRUNCATED;
      break;
    }
    result.frames.push_back(pc);
    sp += found->second & 0xFFFC;
    if (!stack.read(&pc, 8, sp - 8)) {
      result.flags = MEMPROF_CAPTURE_BROKEN;
      break;
    }
  }
  return result;
}

// Undoes the run-length coding.
inline std::vector<std::uint64_t> expand_entries(const std::uint64_t* entries, std::size_t n) {
  std::vector<std::uint64_t> frames;
  for (std::size_t i = 0; i < n; ++i) {
    if ((entries[i] & MEMPROF_RUN_MARK) == 0)
      frames.push_back(entries[i]);
    else
      frames.insert(frames.end(), static_cast<std::uint32_t>(entries[i]), frames.back());
  }
  return frames;
}

// n functions with sizes as compilers make them: most small, some beyond a
// chunk of 512 bytes, flag bits at random.
inline std::vector<SyntheticFrame> random_functions(std::mt19937_64& random, int n) {
  std::vector<SyntheticFrame> functions;
  for (int i = 0; i < n; ++i) {
    const std::uint64_t pc = 0x555555000000 + static_cast<std::uint64_t>(i) * 64 + random() % 64;
    const std::uint64_t words = random() % 20 == 0 ? 60 + random() % 200 : 1 + random() % 12;
    functions.push_back({pc, static_cast<std::uint16_t>(words * 8 | random() % 4)});
  }
  return functions;
}

// A stack of `depth` frames: calls, direct recursion, mutual recursion, C callbacks.
inline std::vector<SyntheticChunk> random_chunks(std::mt19937_64& random,
                                                 const std::vector<SyntheticFrame>& functions,
                                                 int depth) {
  std::vector<SyntheticChunk> chunks(1);
  SyntheticFrame last = functions[random() % functions.size()], other = last;
  for (int i = 0; i < depth; ++i) {
    const auto choice = random() % 100;
    if (choice < 30)
      std::swap(last, other);
    else if (choice < 60)
      last = functions[random() % functions.size()];
    if (choice > 97 && !chunks.back().empty()) chunks.emplace_back();
    chunks.back().push_back(last);
  }
  return chunks;
}

}  // namespace memprofd
