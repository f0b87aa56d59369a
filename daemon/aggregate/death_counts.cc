// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/death_counts.h"

#include <algorithm>

namespace memprofd {
namespace {

using Entry = DeathCounts::Entry;

// Both are sorted; words_of(entry) is what an added one stands for.
template <typename WordsOf>
void merge(std::vector<Entry>& entries, std::span<const Entry> added, WordsOf words_of) {
  auto at = entries.begin();
  for (Entry death : added) {
    death.words = words_of(death);
    while (at != entries.end() && at->code < death.code) ++at;
    if (at == entries.end() || at->code != death.code) {
      at = entries.insert(at, death);
    } else {
      at->n += death.n;
      at->words += death.words;
    }
  }
}

}  // namespace

DeathCounts::Counts& DeathCounts::copy() {
  counts_ = counts_ == nullptr ? std::make_shared<Counts>() : std::make_shared<Counts>(*counts_);
  return *counts_;
}

void DeathCounts::add_entry(const Entry& added, double sum_ns) {
  Counts& counts = own();
  counts.sum_ns += sum_ns;
  if (added.n == 0) return;
  auto entry = counts.entries.begin();
  while (entry != counts.entries.end() && entry->code < added.code) ++entry;
  if (entry == counts.entries.end() || entry->code != added.code) {
    counts.entries.insert(entry, added);
  } else {
    entry->n += added.n;
    entry->words += added.words;
  }
}

void DeathCounts::add_code(std::uint8_t code, std::uint64_t n_samples, double words_each) {
  const Entry entry{code, n_samples, static_cast<double>(n_samples) * words_each};
  add_entry(entry, LifetimeHistogram::middle_ns(entry.bucket()) * entry.words);
}

void DeathCounts::remove_code(std::uint8_t code, std::uint64_t n_samples, double words_each) {
  if (empty()) return;
  Counts& counts = own();
  const auto found = std::find_if(counts.entries.begin(), counts.entries.end(),
                                  [&](const Entry& entry) { return entry.code == code; });
  if (found == counts.entries.end()) return;
  const bool all = found->n <= n_samples;
  const double removed =
      all ? found->words : std::min(found->words, static_cast<double>(n_samples) * words_each);
  counts.sum_ns -= std::min(counts.sum_ns, LifetimeHistogram::middle_ns(found->bucket()) * removed);
  if (!all) {
    found->n -= n_samples;
    found->words -= removed;
    return;
  }
  counts.entries.erase(found);
  if (counts.entries.empty()) counts.sum_ns = 0;
}

void DeathCounts::add_codes(std::span<const Entry> deaths, double words_each) {
  if (deaths.empty()) return;
  Counts& counts = own();
  merge(counts.entries, deaths,
        [=](const Entry& death) { return static_cast<double>(death.n) * words_each; });
  for (const Entry& death : deaths) {
    counts.sum_ns +=
        LifetimeHistogram::middle_ns(death.bucket()) * static_cast<double>(death.n) * words_each;
  }
}

DeathCounts& DeathCounts::operator+=(const DeathCounts& other) {
  if (other.counts_ == nullptr) return *this;
  if (counts_ == nullptr) {
    counts_ = other.counts_;
    return *this;
  }
  const std::shared_ptr<Counts> added = other.counts_;  // may be ours
  Counts& counts = own();
  merge(counts.entries, added->entries, [](const Entry& death) { return death.words; });
  counts.sum_ns += added->sum_ns;
  return *this;
}

void DeathCounts::clear() {
  if (counts_ == nullptr) return;
  if (counts_.use_count() > 1) {
    counts_.reset();
    return;
  }
  Counts& counts = own();
  counts.entries.clear();
  counts.sum_ns = 0;
}

LifetimeHistogram DeathCounts::histogram() const {
  LifetimeHistogram result;
  for (const Entry& entry : entries()) result.add_bucket(entry.bucket(), entry.n, entry.words);
  result.set_sum_ns(sum_ns());
  return result;
}

}  // namespace memprofd
