// SPDX-License-Identifier: Apache-2.0
// Censuses of heaps that remain when the images are gone: the classes with the most memory, and the
// sum of the others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/snapshot/answers/assertion_check.h"
#include "daemon/snapshot/answers/image_census.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

struct NamedCount {
  std::string name;
  BlockCount count;
};

struct ShortCensus {
  static constexpr std::size_t kMaxClasses = 100;

  ImageInfo info;
  TypedCount types;
  BlockCount garbage;
  std::vector<NamedCount> classes;  // reachable ones, the largest first
  BlockCount other;                 // of further classes
  std::vector<AssertionOutcome> assertions = {};
};
using ShortCensusPtr = std::shared_ptr<const ShortCensus>;

ShortCensus shortened(const ImageInfo& info, const ImageCensus& census);

// Censuses by snapshot; a process has one snapshot per moment. Thread-safe.
class CensusStore {
 public:
  // Maximum number of censuses; that of the earliest snapshot is dropped.
  static constexpr std::size_t kMax = 1000;

  void add(ShortCensus census);
  // Null if there is none.
  ShortCensusPtr of(const ImageInfo& info) const;
  // The census of the latest snapshot of that process, unless it is older than the given moment.
  ShortCensusPtr latest(std::uint32_t pid, std::int64_t since_unix_ns) const;

 private:
  using Key = std::pair<std::int64_t, std::uint32_t>;  // time, pid

  mutable Mutex mutex_;
  std::map<Key, ShortCensusPtr> censuses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
