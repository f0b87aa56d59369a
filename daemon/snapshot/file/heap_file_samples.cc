// SPDX-License-Identifier: Apache-2.0
// HeapFileWriter: sampled blocks with their callstacks and ages.
#include <algorithm>

#include "daemon/snapshot/file/heap_file_writer.h"

namespace memprofd {

std::uint32_t HeapFileWriter::add_site(const std::vector<Location>& callstack) {
  std::vector<std::uint32_t> numbers;
  for (const Location& place : callstack) numbers.push_back(location(place));
  numbers.resize(std::min(numbers.size(), kMaxSiteLocations));
  return add_site_of(numbers);
}

std::uint32_t HeapFileWriter::add_site_of(const std::vector<std::uint32_t>& numbers) {
  sites_.bytes.put(numbers.size());
  for (const std::uint32_t number : numbers) sites_.bytes.put(number);
  flush_if_full(sites_);
  return sites_added_++;
}

void HeapFileWriter::add_sample(std::uint64_t value, std::uint64_t sample_id, std::uint32_t samples,
                                std::uint32_t site, std::uint64_t age_ns) {
  const bool has_place = in_heap(value);
  if (samples_.bytes.size() == 0) last_sample_ = 0;
  samples_.bytes.put(site);
  samples_.bytes.put(sample_id);
  samples_.bytes.put(samples);
  samples_.bytes.put_byte(has_place ? 1 : 0);
  if (has_place) {
    samples_.bytes.put_signed(static_cast<std::int64_t>(place_of(value) - last_sample_));
    last_sample_ = place_of(value);
  }
  ages_.bytes.put(age_ns == SampledBlock::kNoAge ? 0 : age_ns / 1000 + 1);
  if (samples_.bytes.size() >= kPieceBytes) flush_samples();
}

void HeapFileWriter::flush_samples() {
  flush_names();
  flush(samples_);
  flush(ages_);
}

}  // namespace memprofd
