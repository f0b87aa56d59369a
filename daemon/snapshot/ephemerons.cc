// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/ephemerons.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

// Follows edges from the roots, and those of an ephemeron once its keys have been reached.
class LiveBlocks {
 public:
  explicit LiveBlocks(const HeapImage& image) : image_(image), reached_(image.blocks()) {
    for (std::size_t i = 0; i < image.weak.size(); ++i) {
      const std::uint32_t block = image.weak[i].block;
      if (!image.edges.of(block).empty()) keys_.try_emplace(block, i);
    }
  }

  bool any() const { return !keys_.empty(); }
  bool is_ephemeron(std::uint32_t block) const { return keys_.contains(block); }

  void follow() {
    for (const ImageRoot& root : image_.roots) reach(root.block);
    while (!queue_.empty()) {
      const std::uint32_t block = queue_.back();
      queue_.pop_back();
      wake(block);
      if (is_ephemeron(block)) {
        check_ephemeron(block);
      } else {
        for (const std::uint32_t held : image_.edges.of(block)) reach(held);
      }
    }
  }
  bool keeps_data(std::uint32_t ephemeron) {
    return reached_[ephemeron] && !missing_key(ephemeron);
  }

 private:
  void reach(std::uint32_t block) {
    if (reached_[block]) return;
    reached_[block] = true;
    queue_.push_back(block);
  }
  void check_ephemeron(std::uint32_t ephemeron) {
    if (const auto key = missing_key(ephemeron)) {
      wait_for(*key, ephemeron);
    } else {
      for (const std::uint32_t data : image_.edges.of(ephemeron)) reach(data);
    }
  }
  void wait_for(std::uint32_t key, std::uint32_t ephemeron) {
    waiting_[key].push_back(ephemeron);
    if (const auto value = forwarded(key)) waiting_[*value].push_back(ephemeron);
  }
  void wake(std::uint32_t key) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    const std::vector<std::uint32_t> ephemerons = std::move(found->second);
    waiting_.erase(found);
    for (const std::uint32_t ephemeron : ephemerons) check_ephemeron(ephemeron);
  }
  // A live key stays alive, so each key is checked once.
  std::optional<std::uint32_t> missing_key(std::uint32_t ephemeron) {
    for (std::size_t& i = keys_.at(ephemeron);
         i < image_.weak.size() && image_.weak[i].block == ephemeron; ++i) {
      if (!is_alive(image_.weak[i].target)) return image_.weak[i].target;
    }
    return std::nullopt;
  }
  bool is_alive(std::uint32_t key) const {
    if (reached_[key]) return true;
    const auto value = forwarded(key);
    return value && reached_[*value];
  }
  // The value of a lazy key that has been forced, which the collector puts in its place.
  std::optional<std::uint32_t> forwarded(std::uint32_t key) const {
    const auto held = image_.edges.of(key);
    if (image_.shape(key).tag != kForwardTag || held.size() != 1) return std::nullopt;
    const unsigned tag = image_.shape(held[0]).tag;
    const bool stays =
        tag == kForwardTag || tag == kLazyTag || tag == kForcingTag || tag == kFloatTag;
    return stays ? std::nullopt : std::optional(held[0]);
  }

  const HeapImage& image_;
  std::vector<bool> reached_;
  std::vector<std::uint32_t> queue_;
  absl::flat_hash_map<std::uint32_t, std::size_t>
      keys_;  // ephemerons with data, by the first key that is not known to be alive
  absl::flat_hash_map<std::uint32_t, std::vector<std::uint32_t>> waiting_;  // ephemerons, by key
};

}  // namespace

void drop_data_without_keys(HeapImage& image) {
  LiveBlocks live(image);
  if (!live.any()) return;
  live.follow();
  EdgeLists& edges = image.edges;
  EdgeOffsets first;
  first.reserve(edges.first.size());
  first.push_back(0);
  std::uint32_t kept = 0;
  std::uint32_t begin = 0;
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    const std::uint32_t end = edges.first[block + 1];
    const bool keeps = !live.is_ephemeron(block) || live.keeps_data(block);
    for (; keeps && begin < end; ++begin, ++kept) {
      edges.to[kept] = edges.to[begin];
      image.fields[kept] = image.fields[begin];
    }
    begin = end;
    first.push_back(kept);
  }
  edges.first = std::move(first);
  edges.to.resize(kept);
  image.fields.resize(kept);
}

}  // namespace memprofd
